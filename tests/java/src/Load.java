import java.nio.charset.StandardCharsets;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;

/**
 * Sends messages with {@code --retries} retries of the client, none by default, one by one in each of {@code --threads} threads, keys and bodies PREFIX-0, PREFIX-1
 * and so on, with {@code --padding} bytes more, until it is killed or a line comes on standard input. With {@code --ordered 1}
 * each thread sends the messages PREFIX-THREAD-0 and so on of one key in order, each until it is acknowledged. Prints one line for each:
 * {@code OK unixMillis key port address logOffset} with the port and the IP address of the broker that has stored it and where it is in
 * that broker's log, or {@code NO unixMillis key code reason}. Only a whole success counts as OK: a message that its slave has not
 * confirmed is stored as well, but nothing is promised.
 */
public final class Load {
    private static volatile boolean goesOn = true;

    private Load() {
    }

    public static void main(String[] args) throws Exception {
        Options options = new Options(args);
        DefaultMQProducer producer = new DefaultMQProducer(options.text("group"));
        producer.setNamesrvAddr(options.text("namesrv"));
        producer.setPollNameServerInterval(options.number("poll-ms", 1000));
        producer.setSendMsgTimeout(options.number("timeout-ms", 3000));
        producer.setRetryTimesWhenSendFailed(options.number("retries", 0));
        producer.start();
        System.out.println("READY " + System.currentTimeMillis());
        Thread listener = new Thread(Load::awaitLine);
        listener.setDaemon(true);
        listener.start();
        AtomicInteger next = new AtomicInteger();
        Thread[] senders = new Thread[options.number("threads", 1)];
        for (int i = 0; i < senders.length; i++) {
            String key = "-" + i + "-";
            senders[i] = new Thread(
                options.number("ordered", 0) > 0 ? () -> sendInOrder(producer, options, key) : () -> sendAll(producer, options, next));
            senders[i].start();
        }
        for (Thread sender : senders) {
            sender.join();
        }
        System.out.println("DONE " + System.currentTimeMillis());
        System.exit(0);
    }

    private static void sendAll(DefaultMQProducer producer, Options options, AtomicInteger next) {
        String padding = "x".repeat(options.number("padding", 0));
        try {
            while (goesOn) {
                String key = options.text("prefix") + "-" + next.getAndIncrement();
                send(producer, new Message(options.text("topic"), null, key, key.getBytes(StandardCharsets.UTF_8)), padding);
                Thread.sleep(options.number("interval-ms", 10));
            }
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Sends the messages of one key to one queue; the next one is sent once the one before was acknowledged. */
    private static void sendInOrder(DefaultMQProducer producer, Options options, String key) {
        try {
            for (int number = 0; goesOn; number++) {
                String name = options.text("prefix") + key + number;
                Message message = new Message(options.text("topic"), null, name, name.getBytes(StandardCharsets.UTF_8));
                while (!sent(name, () -> producer.send(message, (queues, each, arg) -> queues.get(arg.hashCode() % queues.size()), Math.abs(key.hashCode())))) {
                    Thread.sleep(1);
                }
                Thread.sleep(options.number("interval-ms", 10));
            }
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    private static void awaitLine() {
        try {
            System.in.read();
        } catch (java.io.IOException e) {
            System.out.println("INPUT " + e);
        }
        goesOn = false;
    }

    private static void send(DefaultMQProducer producer, Message message, String padding) throws InterruptedException {
        if (!padding.isEmpty()) {
            message.putUserProperty("padding", padding);
        }
        sent(message.getKeys(), () -> producer.send(message));
    }

    /** A send; it throws what a producer throws. */
    private interface Sending {
        SendResult send() throws Exception;
    }

    private static boolean sent(String key, Sending sending) throws InterruptedException {
        try {
            SendResult result = sending.send();
            if (result.getSendStatus() == SendStatus.SEND_OK) {
                String id = result.getOffsetMsgId();
                report("OK", key, portOf(id) + " " + hostOf(id) + " " + logOffsetOf(id));
                return true;
            } else {
                report("NO", key, result.getSendStatus().name() + " -");
            }
        } catch (MQBrokerException e) {
            report("NO", key, e.getResponseCode() + " " + e.getErrorMessage());
        } catch (MQClientException e) {
            report("NO", key, e.getResponseCode() + " " + e.getErrorMessage());
        } catch (InterruptedException e) {
            throw e;
        } catch (Exception e) {
            report("NO", key, e.getClass().getSimpleName() + " " + e.getMessage());
        }
        return false;
    }

    /** The id that a broker gives a message: its own address, four bytes of IP and four of the port; then eight of the place in its log. */
    private static int portOf(String offsetMessageId) {
        return Integer.parseInt(offsetMessageId.substring(8, 16), 16);
    }

    private static String hostOf(String offsetMessageId) {
        String[] parts = new String[4];
        for (int i = 0; i < parts.length; i++) {
            parts[i] = String.valueOf(Integer.parseInt(offsetMessageId.substring(2 * i, 2 * i + 2), 16));
        }
        return String.join(".", parts);
    }

    private static long logOffsetOf(String offsetMessageId) {
        return Long.parseLong(offsetMessageId.substring(16, 32), 16);
    }

    private static void report(String what, String key, String detail) {
        String line = detail.replaceAll("\\s+", " ");
        System.out.println(what + " " + System.currentTimeMillis() + " " + key + " " + line);
    }
}
