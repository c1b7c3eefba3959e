package engine;

import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.painless.PainlessScriptEngine;
import org.elasticsearch.painless.spi.Whitelist;
import org.elasticsearch.plugins.Plugin;
import org.elasticsearch.plugins.ScriptPlugin;
import org.elasticsearch.script.ScriptContext;
import org.elasticsearch.script.ScriptEngine;

/**
 * Painless as version 7.10.2 had it. No later one is in a package registry, and its own plugin does not fit into a later node;
 * its engine does.
 */
public final class Painless extends Plugin implements ScriptPlugin {
  @Override
  public ScriptEngine getScriptEngine(Settings settings, Collection<ScriptContext<?>> contexts) {
    Map<ScriptContext<?>, List<Whitelist>> allowed = new HashMap<>();
    for (ScriptContext<?> context : contexts) {
      allowed.put(context, Whitelist.BASE_WHITELISTS);
    }
    return new PainlessScriptEngine(settings, allowed);
  }
}
