import java.util.HashMap;
import java.util.Map;

/** Command line of the form {@code --name value --name value}. */
final class Options {
    private final Map<String, String> values = new HashMap<>();

    Options(String[] args) {
        if (args.length % 2 != 0) {
            throw new IllegalArgumentException("every option takes one value");
        }
        for (int i = 0; i < args.length; i += 2) {
            values.put(args[i].replaceFirst("^--", ""), args[i + 1]);
        }
    }

    String text(String name) {
        String value = values.get(name);
        if (value == null) {
            throw new IllegalArgumentException("missing option --" + name);
        }
        return value;
    }

    String text(String name, String otherwise) {
        return values.getOrDefault(name, otherwise);
    }

    int number(String name, int otherwise) {
        String value = values.get(name);
        return value == null ? otherwise : Integer.parseInt(value);
    }
}
