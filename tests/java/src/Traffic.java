import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;

/**
 * Hosts producers and consumers, each with connections of its own, and starts and ends them by lines of standard input,
 * their words split by tabs:
 * <pre>
 * send NAME --namesrv ADDRESSES --topic TOPIC ...      a producer, see TrafficSender
 * receive NAME --namesrv ADDRESSES --topic TOPIC ...   a consumer, see TrafficReceiver
 * finish NAME                                          waits until a producer has sent its --count, and ends it
 * stop NAME                                            ends it in order: offsets are committed, brokers informed
 * kill NAME                                            ends it as a killed process ends: connections close, no more
 * </pre>
 * Each command is answered by {@code DONE n} with its number, from 0 on, and what there is to report, or by
 * {@code REFUSED n reason}. What is sent and received goes to the file {@code --records}, see TrafficRecords.
 */
public final class Traffic {
    private final TrafficRecords records;
    private final Map<String, TrafficClient> clients = new HashMap<>();

    private Traffic(TrafficRecords records) {
        this.records = records;
    }

    public static void main(String[] args) throws Exception {
        Traffic traffic = new Traffic(new TrafficRecords(new Options(args).text("records")));
        System.out.println("READY");
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        int number = 0;
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            try {
                System.out.println("DONE " + number + " " + traffic.run(line.split("\t")));
            } catch (Exception e) {
                System.out.println("REFUSED " + number + " " + e.toString().replaceAll("\\s+", " "));
            }
            number++;
        }
        System.exit(0);
    }

    private String run(String[] words) throws Exception {
        String name = words[1];
        Options options = new Options(Arrays.copyOfRange(words, 2, words.length));
        switch (words[0]) {
            case "send":
                return add(name, new TrafficSender(name, options, records));
            case "receive":
                return add(name, new TrafficReceiver(name, options, records));
            case "finish":
                clients.remove(name).finish();
                return name;
            case "stop":
                clients.remove(name).stop();
                return name;
            case "kill":
                clients.remove(name).kill();
                return name;
            default:
                throw new IllegalArgumentException("no command " + words[0]);
        }
    }

    private String add(String name, TrafficClient client) throws Exception {
        if (clients.putIfAbsent(name, client) != null) {
            throw new IllegalArgumentException(name + " runs already");
        }
        return client.start();
    }
}
