// The pages read without this script. With it their durations go on, and what is new comes by
// itself: one stream for all windows of a browser tells that there is something new, and each
// window that is seen then loads its part again.
"use strict";
(() => {
  const $ = (selector, within = document) => within.querySelector(selector);
  const live = $("#live"), connection = $("#connection"), dialog = $("#dialog"), login = $("#sign-in");
  document.documentElement.classList.add("live"); // what needs this script is shown

  // Durations. The page gets ages, not times of another clock: what began, or will end, is kept
  // as a moment of this clock.
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const words = (ms) => {
    const s = Math.max(0, Math.floor(ms / 1000));
    const i = units.findIndex(([, size], i) => s >= size || i === units.length - 1);
    const rest = i + 1 < units.length ? Math.floor((s % units[i][1]) / units[i + 1][1]) : 0;
    return Math.floor(s / units[i][1]) + " " + units[i][0] + (rest ? " " + rest + " " + units[i + 1][0] : "");
  };
  const moments = new WeakMap();
  const momentOf = (t, loaded) => t.dataset.up !== undefined ? loaded - t.dataset.up : loaded + +t.dataset.down;
  const count = (within) => {
    const now = performance.now();
    for (const t of within.getElementsByTagName("time")) {
      const moment = moments.get(t) ?? momentOf(t, now);
      moments.set(t, moment);
      const rest = t.dataset.up !== undefined ? now - moment : moment - now;
      const text = rest <= 0 && t.dataset.over || words(rest);
      if (t.firstChild.nodeValue !== text) t.firstChild.nodeValue = text;
    }
  };

  // The page says when it is old. The server says every 15 s that it lives.
  const gone = "The server does not answer. What you see is what was there before.";
  let heard = performance.now(), problem = "", said = "";
  const tell = () => {
    const old = problem || (!login && performance.now() - heard > 45000 ? gone : "");
    if (connection.textContent !== (said || old)) connection.textContent = said || old;
    connection.hidden = !(said || old);
    document.documentElement.classList.toggle("doubt", old !== "");
  };
  const say = (text) => {
    said = text;
    tell();
    setTimeout(() => { said = ""; tell(); }, 8000);
  };
  setInterval(() => {
    if (document.hidden) return;
    count(document);
    tell();
    if (!login && performance.now() - heard > 20000) polling(true);
  }, 1000);

  // adopt makes the old element like the new one, and leaves alone what is the same: what is
  // focused, selected or scrolled stays so.
  const keyOf = (n) => n.dataset?.key || n.id || "";
  const alike = (a, b) => a.nodeName === b.nodeName && keyOf(a) === keyOf(b);
  const drop = (n) => {
    const next = n.nextSibling;
    n.remove();
    return next;
  };
  const adopt = (old, now, loaded) => {
    if (old.nodeType !== 1) {
      if (old.nodeValue !== now.nodeValue) old.nodeValue = now.nodeValue;
      return;
    }
    if (old === document.activeElement && /^(INPUT|SELECT)$/.test(old.nodeName)) return;
    if (old.nodeName === "TIME") {
      const moment = momentOf(now, loaded), kind = (t) => (t.dataset.up !== undefined) + (t.dataset.over || "");
      if (kind(now) !== kind(old)) old.replaceWith(now);
      else if (!(Math.abs(moments.get(old) - moment) < 700)) moments.set(old, moment); // nearer, it is but what the way took
      return;
    }
    for (const { name } of [...old.attributes]) if (!now.hasAttribute(name)) old.removeAttribute(name);
    for (const { name, value } of now.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    let at = old.firstChild, keyed = null, wanted = null;
    for (const child of [...now.childNodes]) {
      let match = at && alike(at, child) ? at : null;
      if (!match && keyOf(child)) {
        keyed ??= new Map([...old.children].map((c) => [keyOf(c), c]));
        wanted ??= new Set([...now.children, child].map(keyOf));
        while (at && keyOf(at) && !wanted.has(keyOf(at))) at = drop(at); // else all behind it would be moved before it
        match = keyed.get(keyOf(child));
        if (match && (match.parentNode !== old || !alike(match, child))) match = null;
      }
      if (match === at && at) at = at.nextSibling;
      else {
        const focused = match?.contains(document.activeElement) ? document.activeElement : null;
        old.insertBefore(match ?? child, at);
        focused?.focus({ preventScroll: true });
      }
      if (match) adopt(match, child, loaded);
    }
    while (at) at = drop(at);
  };

  // Loading a part of a page: of this one, or one for the dialog.
  const part = async (address) => {
    const headers = { "Holdfast-Part": "1", Accept: "text/html" };
    const answer = await fetch(address, { headers, signal: AbortSignal.timeout(20000) });
    if (!answer.headers.get("Holdfast-Part")) throw new Error("not a part of a page");
    if (answer.status === 401 && document.body.dataset.login !== undefined) {
      location.href = "login?next=" + encodeURIComponent(location.pathname.split("/").pop() + location.search + location.hash);
      return null;
    }
    return new DOMParser().parseFromString(await answer.text(), "text/html").body;
  };
  // What somebody may be about to click stands still while the dialog is open, and windows that
  // nobody sees load when somebody does.
  let busy = false, missed = false;
  const load = async () => {
    if (busy || document.hidden || dialog.open) { missed = true; return; }
    busy = true;
    missed = false;
    try {
      const now = await part(location.href);
      heard = performance.now();
      await new Promise((next) => setTimeout(next)); // one long task would be felt
      if (dialog.open) missed = true;
      else if (now) {
        problem = "";
        const shown = document.createElement("div");
        shown.id = "live";
        shown.append(...now.childNodes);
        adopt(live, shown, heard);
        count(live);
        document.dispatchEvent(new Event("holdfast-load"));
      }
    } catch {
      problem = gone;
    } finally {
      busy = false;
      tell();
      if (missed && !problem) later();
    }
  };
  const later = () => { if (missed) load(); };
  document.addEventListener("visibilitychange", later);
  dialog.addEventListener("close", later);

  // One window has the stream, and tells the others.
  const here = location.pathname.replace(/[^/]*$/, "");
  const channel = "BroadcastChannel" in window ? new BroadcastChannel("holdfast " + here) : null;
  let poll = 0;
  const polling = (on) => {
    if (on && !poll) poll = setInterval(load, 5000);
    if (!on && poll) poll = clearInterval(poll) ?? 0;
  };
  const receive = (message) => {
    if (message === "broken") polling(true);
    // Whoever is signed out goes to the form, also in a window that nobody sees: to show it is
    // to show what was there before.
    else if (message === "refused" || message === "signed-out") part(location.href).catch(() => {});
    else {
      polling(false);
      if (!problem) heard = performance.now();
    }
    if (message !== "alive") load();
  };
  const stream = () => new Promise(() => {
    const open = () => {
      const source = new EventSource("events");
      const pass = (message) => {
        channel?.postMessage(message);
        receive(message);
      };
      source.addEventListener("sight", () => pass("sight"));
      source.addEventListener("alive", () => pass("alive"));
      source.onerror = () => {
        pass("broken");
        if (source.readyState !== EventSource.CLOSED) return; // it tries again by itself
        pass("refused");
        setTimeout(open, 10000);
      };
    };
    open();
  });
  if (!login) {
    if (channel) channel.onmessage = (e) => receive(e.data);
    // A browser has few connections, so windows that cannot agree on a stream ask again and again.
    if (navigator.locks && channel) navigator.locks.request("holdfast stream " + here, stream);
    else polling(true);
  }

  // Filters, in the address.
  document.addEventListener("input", ({ target }) => {
    if (!target.form?.matches(".filters")) return;
    const query = new URLSearchParams([...new FormData(target.form)].filter(([, value]) => value));
    history.replaceState(null, "", "?" + query);
    load();
  });

  const post = async (path, body) => {
    const headers = { "Content-Type": "application/json" };
    const answer = await fetch(path, { method: "POST", headers, body: JSON.stringify(body), signal: AbortSignal.timeout(20000) });
    const said = await answer.json().catch(() => ({ error: "The server did not answer as it should." }));
    if (!answer.ok || said.error) throw new Error(said.error || "The server refuses that.");
    return said;
  };
  const unsure = "The server does not answer. Look whether it was done before you try again.";
  const why = (e) => e.name === "TimeoutError" || e instanceof TypeError ? unsure : e.message;
  const fail = (form, text) => {
    const p = $(".error", form);
    p.textContent = text;
    p.hidden = text === "";
  };

  // Release by force: a link shows what it would release in the dialog, and the form there does it.
  const ask = async (link) => {
    const now = await part(link.href);
    if (!now) return;
    dialog.replaceChildren(...$("main", now).childNodes);
    count(dialog);
    dialog.showModal();
    $("#reason", dialog)?.focus();
  };
  const release = async (form) => {
    const boxes = [...form.querySelectorAll("input:checked")], act = $("[type=submit]", form);
    const holds = boxes.map((box) => Object.fromEntries(new URLSearchParams(box.value)));
    act.disabled = true;
    fail(form, "");
    try {
      const { results } = await post("force", { reason: $("#reason", form).value, holds });
      results.forEach(({ ok, says }, i) => {
        const line = $(".result", boxes[i].parentNode);
        line.textContent = says;
        line.classList.toggle("error", !ok);
        boxes[i].disabled = ok;
        boxes[i].checked = !ok;
      });
      $("[data-close]", form).textContent = "Close";
      if (results.length > 1) $("h1", dialog).textContent = `${results.filter(({ ok }) => ok).length} of ${results.length} are done`;
      if (results.length > 1 || !results[0].ok || !dialog.open) return;
      say(results[0].says);
      dialog.close();
    } catch (e) {
      fail(form, why(e));
    } finally {
      act.disabled = !$("input[type=checkbox]:enabled", form);
    }
  };

  const actions = {
    "[data-release]": (link, e) => {
      if (e.ctrlKey || e.metaKey || e.shiftKey) return null; // into another window
      e.preventDefault();
      return ask(link);
    },
    "[data-close]": () => dialog.close(),
    "[data-copy]": async (button) => {
      const code = $("code", button.parentNode);
      getSelection().selectAllChildren(code); // also where the browser lets nobody copy
      const copied = await navigator.clipboard?.writeText(code.textContent).then(() => true, () => false);
      button.textContent = copied ? "Copied" : "Selected: press Ctrl+C";
    },
    "[data-look]": (button) => post("look", { resource: decodeURIComponent(button.dataset.look) }).then(load),
    "[data-sign-out]": async () => {
      await post("sign-out", {});
      channel?.postMessage("signed-out");
      location.href = "login";
    },
  };
  document.addEventListener("click", async (e) => {
    const selector = Object.keys(actions).find((selector) => e.target.closest(selector));
    try {
      if (selector) await actions[selector](e.target.closest(selector), e);
    } catch (error) {
      say(why(error));
    }
  });
  const signIn = async () => {
    fail(login, "");
    try {
      await post("sign-in", { token: $("#token").value.trim() });
      location.replace(login.dataset.next);
    } catch (error) {
      fail(login, why(error));
      $("#token").select();
    }
  };
  document.addEventListener("submit", (e) => {
    e.preventDefault();
    if (e.target.id === "force") release(e.target);
    if (e.target === login) signIn();
  });
  count(document);
})();
