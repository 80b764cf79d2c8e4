import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;

/**
 * A producer that stays: for each line of standard input, a number of milliseconds, it sends messages of
 * {@code --bytes} in {@code --threads} threads for that long, each as soon as the one before was answered, and prints
 * {@code RATE messages millis p50Micros p99Micros FAILURES}: times are of those that were stored, failures are as
 * {@code {code=count, code=count}}.
 */
public final class Rate {
    private Rate() {
    }

    public static void main(String[] args) throws Exception {
        Options options = new Options(args);
        DefaultMQProducer producer = new DefaultMQProducer(options.text("group"));
        producer.setNamesrvAddr(options.text("namesrv"));
        producer.setPollNameServerInterval(options.number("poll-ms", 30_000));
        producer.start();
        System.out.println("READY");
        BufferedReader rounds = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = rounds.readLine(); line != null; line = rounds.readLine()) {
            Sender[] senders = new Sender[options.number("threads", 8)];
            long began = System.nanoTime();
            long end = began + Long.parseLong(line.trim()) * 1_000_000L;
            for (int i = 0; i < senders.length; i++) {
                senders[i] = new Sender(producer, options.text("topic"), options.number("bytes", 1024), end);
                senders[i].start();
            }
            report(senders, began);
        }
        System.exit(0);
    }

    private static void report(Sender[] senders, long began) throws InterruptedException {
        long[] took = new long[0];
        Map<String, Integer> failures = new TreeMap<>();
        for (Sender sender : senders) {
            sender.join();
            int before = took.length;
            took = Arrays.copyOf(took, before + sender.stored);
            System.arraycopy(sender.tookNanos, 0, took, before, sender.stored);
            sender.failures.forEach((code, count) -> failures.merge(code, count, Integer::sum));
        }
        long millis = (System.nanoTime() - began) / 1_000_000L;
        Arrays.sort(took);
        System.out.println("RATE " + took.length + " " + millis + " " + micros(took, 50) + " " + micros(took, 99) + " "
            + failures);
    }

    private static long micros(long[] sorted, int percent) {
        return sorted.length == 0 ? 0 : sorted[(int) ((long) sorted.length * percent / 100)] / 1_000;
    }

    private static final class Sender extends Thread {
        private final DefaultMQProducer producer;
        private final String topic;
        private final byte[] body;
        private final long end;
        private long[] tookNanos = new long[1024];
        private int stored;
        private final Map<String, Integer> failures = new TreeMap<>();

        Sender(DefaultMQProducer producer, String topic, int bytes, long end) {
            this.producer = producer;
            this.topic = topic;
            body = new byte[bytes];
            this.end = end;
        }

        @Override
        public void run() {
            for (long now = System.nanoTime(); now < end; now = System.nanoTime()) {
                String failure = failureOfSending();
                if (failure != null) {
                    failures.merge(failure, 1, Integer::sum);
                    continue;
                }
                if (stored == tookNanos.length) {
                    tookNanos = Arrays.copyOf(tookNanos, 2 * stored);
                }
                tookNanos[stored++] = System.nanoTime() - now;
            }
        }

        /** Sends a message; returns why it was not stored, null if it was. */
        private String failureOfSending() {
            try {
                SendResult result = producer.send(new Message(topic, body));
                return result.getSendStatus() == SendStatus.SEND_OK ? null : result.getSendStatus().name();
            } catch (MQBrokerException e) {
                return String.valueOf(e.getResponseCode());
            } catch (Exception e) {
                return e.getClass().getSimpleName();
            }
        }
    }
}
