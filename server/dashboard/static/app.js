// The pages read without this script. With it their durations go on, and what is new comes by
// itself: one stream for all windows of a browser tells that there is something new, and each
// window that is seen then loads its part again.
"use strict";
(() => {
  const live = document.getElementById("live");
  const connection = document.getElementById("connection");
  const $ = (selector, within = document) => within.querySelector(selector);

  // Durations. The page gets ages, not times of another clock: what began, or will end, is kept
  // as a moment of this clock.
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const words = (ms) => {
    let s = Math.max(0, Math.floor(ms / 1000));
    for (let i = 0; i < units.length; i++) {
      const [name, size] = units[i];
      if (s < size && i < units.length - 1) continue;
      const n = Math.floor(s / size), next = units[i + 1];
      const rest = next ? Math.floor((s % size) / next[1]) : 0;
      return n + " " + name + (rest ? " " + rest + " " + next[0] : "");
    }
  };
  const moments = new WeakMap();
  const momentOf = (t, loaded) => t.dataset.up !== undefined ? loaded - t.dataset.up : loaded + +t.dataset.down;
  const count = () => {
    const now = performance.now();
    for (const t of live.getElementsByTagName("time")) {
      const moment = moments.get(t) ?? momentOf(t, now);
      moments.set(t, moment);
      const rest = t.dataset.up !== undefined ? now - moment : moment - now;
      const text = rest <= 0 && t.dataset.over || words(rest);
      if (t.firstChild.nodeValue !== text) t.firstChild.nodeValue = text;
    }
  };

  // The page says when it is old. The server says every 15 s that it lives.
  const login = document.getElementById("sign-in");
  let heard = performance.now(), problem = "", said = "";
  const tell = () => {
    const silent = !login && performance.now() - heard > 45000;
    const text = said || problem || (silent ? "The server does not answer. What you see is what was there before." : "");
    if (connection.textContent !== text) connection.textContent = text;
    connection.hidden = text === "";
    document.documentElement.classList.toggle("old", problem !== "" || silent);
  };
  const say = (text) => {
    said = text;
    tell();
    setTimeout(() => { said = ""; tell(); }, 8000);
  };
  setInterval(() => {
    if (document.hidden) return;
    count();
    tell();
    if (!login && performance.now() - heard > 20000) polling(true);
  }, 1000);

  // adopt makes the old element like the new one, and leaves alone what is the same: what is
  // focused, selected or scrolled stays so.
  const keyOf = (n) => n.nodeType === 1 ? n.dataset.key || n.id || "" : "";
  const alike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && keyOf(a) === keyOf(b);
  const adopt = (old, now, loaded) => {
    if (old.nodeType !== 1) {
      if (old.nodeValue !== now.nodeValue) old.nodeValue = now.nodeValue;
      return;
    }
    if (old.nodeName === "TIME") {
      const moment = momentOf(now, loaded);
      const kind = (t) => (t.dataset.up !== undefined) + (t.dataset.over || "");
      if (kind(now) !== kind(old)) {
        old.replaceWith(now);
      } else if (!(Math.abs(moments.get(old) - moment) < 700)) { // nearer, it is but what the way took
        moments.set(old, moment);
      }
      return;
    }
    const typing = old === document.activeElement && /^(INPUT|SELECT|TEXTAREA)$/.test(old.nodeName);
    for (let i = old.attributes.length; i--;) {
      const { name } = old.attributes[i];
      if (!now.hasAttribute(name) && name !== "data-shown") old.removeAttribute(name);
    }
    for (const { name, value } of now.attributes) {
      if (!(name === "hidden" && old.dataset.shown) && old.getAttribute(name) !== value && !(typing && name === "value")) old.setAttribute(name, value);
    }
    if (typing) return;
    let keyed = null, wanted = null;
    let at = old.firstChild;
    for (let child = now.firstChild, after; child; child = after) {
      after = child.nextSibling;
      let match = at && alike(at, child) ? at : null;
      if (!match && keyOf(child)) {
        if (!keyed) {
          keyed = new Map();
          for (let c = at; c; c = c.nextSibling) if (keyOf(c)) keyed.set(keyOf(c), c);
          wanted = new Set();
          for (let c = child; c; c = c.nextSibling) wanted.add(keyOf(c));
        }
        // What is gone goes first: else all that is behind it would be moved before it.
        while (at && keyOf(at) && !wanted.has(keyOf(at))) {
          const gone = at;
          at = at.nextSibling;
          keyed.delete(keyOf(gone));
          gone.remove();
        }
        match = at && alike(at, child) ? at : keyed.get(keyOf(child));
        keyed.delete(keyOf(child));
      }
      if (match && match.parentNode === old && alike(match, child)) {
        if (match === at) at = at.nextSibling;
        else {
          const focused = match.contains(document.activeElement) ? document.activeElement : null;
          old.insertBefore(match, at);
          if (focused) focused.focus({ preventScroll: true });
        }
        adopt(match, child, loaded);
      } else {
        old.insertBefore(child, at);
      }
    }
    while (at) {
      const next = at.nextSibling;
      at.remove();
      at = next;
    }
  };

  // Loading the part of this page that changes.
  let busy = false, again = false;
  const load = async () => {
    if (busy) { again = true; return; }
    busy = true;
    try {
      const answer = await fetch(location.href, { headers: { "Holdfast-Part": "1", Accept: "text/html" }, signal: AbortSignal.timeout(20000) });
      if (!answer.headers.get("Holdfast-Part")) throw new Error("not a part of a page");
      if (answer.status === 401 && document.body.dataset.login !== undefined) {
        location.href = "login?next=" + encodeURIComponent(here() + location.hash);
        return;
      }
      const text = await answer.text();
      heard = performance.now();
      problem = "";
      const now = document.createElement("div");
      now.id = "live";
      now.append(...new DOMParser().parseFromString(text, "text/html").body.childNodes);
      await new Promise((next) => setTimeout(next)); // one long task would be felt
      adopt(live, now, heard);
      show();
      count();
      document.dispatchEvent(new Event("holdfast-load"));
    } catch (e) {
      problem = "The server does not answer. What you see is what was there before.";
    } finally {
      busy = false;
      tell();
      if (again) { again = false; load(); }
    }
  };
  const here = () => location.pathname.split("/").pop() + location.search;

  // Something is new. Windows that nobody sees load when somebody does.
  let missed = false;
  const news = () => { if (document.hidden) missed = true; else load(); };
  document.addEventListener("visibilitychange", () => { if (!document.hidden && missed) { missed = false; load(); } });

  // One window has the stream, and tells the others.
  const channel = "BroadcastChannel" in window ? new BroadcastChannel("holdfast " + location.pathname.replace(/[^/]*$/, "")) : null;
  let poll = 0;
  const polling = (on) => {
    if (on && !poll) poll = setInterval(news, 5000);
    if (!on && poll) { clearInterval(poll); poll = 0; }
  };
  const receive = (message) => {
    // Whoever is signed out goes to the form, also in a window that nobody sees: to show it is
    // to show what was there before.
    if (message === "refused" || message === "signed-out") { load(); return; }
    if (message === "broken") polling(true);
    else {
      polling(false);
      if (!problem) heard = performance.now();
    }
    if (message !== "alive") news();
  };
  const stream = () => new Promise(() => {
    const open = () => {
      const source = new EventSource("events");
      const pass = (message) => {
        if (channel) channel.postMessage(message);
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
    if (navigator.locks && channel) navigator.locks.request("holdfast stream " + location.pathname.replace(/[^/]*$/, ""), stream);
    else polling(true);
  }

  // What needs this script is shown by it.
  const show = () => {
    for (const b of document.querySelectorAll("[data-force], [data-sign-out]")) {
      b.hidden = false;
      b.dataset.shown = "1";
    }
  };
  document.documentElement.classList.add("live");
  show();
  count();

  // Filters, in the address.
  let typing = 0;
  const filter = (form) => {
    const query = new URLSearchParams();
    for (const [name, value] of new FormData(form)) if (value) query.set(name, value);
    history.replaceState(null, "", query.size ? "?" + query : "./");
    load();
  };
  document.addEventListener("input", (e) => {
    const form = e.target.closest(".filters");
    if (!form) return;
    clearTimeout(typing);
    typing = setTimeout(() => filter(form), e.target.type === "search" ? 200 : 0);
  });
  document.addEventListener("submit", (e) => {
    if (e.target.matches(".filters")) { e.preventDefault(); filter(e.target); }
  });

  const post = async (path, body) => {
    const answer = await fetch(path, {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal: AbortSignal.timeout(20000),
    });
    const said = await answer.json().catch(() => ({ error: "The server did not answer as it should." }));
    if (!answer.ok || said.error) throw new Error(said.error || "The server refuses that.");
    return said.done;
  };
  const fail = (within, text) => {
    const p = $(".error", within);
    p.textContent = text;
    p.hidden = text === "";
  };
  const why = (e) => e.name === "TimeoutError" || e instanceof TypeError ? "The server does not answer. Look whether it was done before you try again." : e.message;

  // Release by force.
  const dialog = document.getElementById("force");
  let chosen = null;
  document.addEventListener("click", async (e) => {
    const button = e.target.closest("[data-force]");
    if (button) {
      chosen = { resource: decodeURIComponent(button.dataset.resource), ref: button.dataset.ref, token: button.dataset.token };
      $("[data-who]", dialog).textContent = button.dataset.who;
      $("[data-resource]", dialog).textContent = button.dataset.name;
      $("#reason").value = "";
      fail(dialog, "");
      dialog.showModal();
      $("#reason").focus();
    }
    if (e.target.closest("[data-confirm]")) {
      const reason = $("#reason").value.trim();
      if (!reason) { fail(dialog, "Say why."); $("#reason").focus(); return; }
      const confirm = e.target.closest("button");
      confirm.disabled = true;
      try {
        const done = await post("force", { ...chosen, reason });
        dialog.close();
        say(done);
        load();
      } catch (error) {
        if (dialog.open) fail(dialog, why(error));
        else say(why(error));
      } finally {
        confirm.disabled = false;
      }
    }
    if (e.target.closest("[data-sign-out]")) {
      try {
        await post("sign-out", {});
        if (channel) channel.postMessage("signed-out");
        location.href = "login";
      } catch (error) {
        say("You are still signed in. " + why(error));
      }
    }
  });

  // Signing in.
  if (login) {
    login.addEventListener("submit", async (e) => {
      e.preventDefault();
      fail(login, "");
      try {
        await post("sign-in", { token: $("#token").value.trim() });
        location.replace(login.dataset.next);
      } catch (error) {
        fail(login, why(error));
        $("#token").select();
      }
    });
  }
})();
