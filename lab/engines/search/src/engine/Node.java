package engine;

import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;

/**
 * A node of OpenSearch or Elasticsearch: of whichever is in the class path. All is done by reflection, because newer nodes are
 * compiled for a newer Java than the compiler that is at hand, and because the two differ in their packages' names.
 */
final class Node {
  private Node() {}

  /** What is here under one of the names that it has had. */
  private static final List<List<String>> PLUGINS =
      List.of(
          List.of("transport.Netty4Plugin", "transport.Netty4ModulePlugin", "transport.netty4.Netty4Plugin"),
          List.of("engine.Painless", "painless.PainlessPlugin", "painless.PainlessModulePlugin"),
          List.of("index.reindex.ReindexPlugin", "reindex.ReindexPlugin", "index.reindex.ReindexModulePlugin"));

  /** Starts the node of this process and returns when it accepts connections. */
  static void start(Path home, Map<String, String> settings) throws Exception {
    Class<?> type = find("node.Node");
    Object environment = environment(home, settings);
    Constructor<?> constructor = type.getDeclaredConstructor(environment.getClass(), java.util.Collection.class, boolean.class);
    constructor.setAccessible(true);
    boolean byInfo = constructor.getGenericParameterTypes()[1].getTypeName().contains("PluginInfo");
    List<Object> plugins = new ArrayList<>();
    for (List<String> names : PLUGINS) {
      Class<?> plugin = first(names);
      plugins.add(byInfo ? info(plugin) : plugin);
    }
    type.getMethod("start").invoke(constructor.newInstance(environment, plugins, true));
  }

  private static Object environment(Path home, Map<String, String> settings) throws Exception {
    Class<?> type = find("common.settings.Settings");
    Object builder = type.getMethod("builder").invoke(null);
    Method put = builder.getClass().getMethod("put", String.class, String.class);
    for (Map.Entry<String, String> setting : settings.entrySet()) {
      put.invoke(builder, setting.getKey(), setting.getValue());
    }
    Object built = builder.getClass().getMethod("build").invoke(builder);
    Supplier<String> name = () -> "test";
    return find("node.InternalSettingsPreparer")
        .getMethod("prepareEnvironment", type, Map.class, Path.class, Supplier.class)
        .invoke(null, built, Map.of(), home.resolve("config"), name);
  }

  /** What OpenSearch 3 wants to know of a plugin. */
  private static Object info(Class<?> plugin) throws Exception {
    Class<?> version = find("Version");
    return find("plugins.PluginInfo")
        .getConstructor(String.class, String.class, String.class, version, String.class, String.class, String.class, List.class, boolean.class)
        .newInstance(plugin.getName(), "", "", version.getField("CURRENT").get(null), "21", plugin.getName(), null, List.of(), false);
  }

  private static Class<?> find(String name) throws ClassNotFoundException {
    for (String prefix : List.of("org.opensearch.", "org.elasticsearch.", "")) {
      try {
        return Class.forName(prefix + name);
      } catch (ClassNotFoundException e) {
        // It may be the other one.
      }
    }
    throw new ClassNotFoundException(name);
  }

  private static Class<?> first(List<String> names) throws ClassNotFoundException {
    for (String name : names) {
      try {
        return find(name);
      } catch (ClassNotFoundException e) {
        // It may have the next name.
      }
    }
    throw new ClassNotFoundException(String.join(", ", names));
  }
}
