import java.nio.charset.StandardCharsets;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;

/**
 * Sends messages without any retry, one by one in each of {@code --threads} threads, keys and bodies PREFIX-0, PREFIX-1
 * and so on, with {@code --padding} bytes more, until it is killed or a line comes on standard input. Prints one line for each: {@code OK unixMillis key port} with the port of the broker
 * that has stored it, or {@code NO unixMillis key code reason}. Only a whole success counts as OK: a message that its
 * slave has not confirmed is stored as well, but nothing is promised.
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
        producer.setRetryTimesWhenSendFailed(0);
        producer.start();
        System.out.println("READY " + System.currentTimeMillis());
        Thread listener = new Thread(Load::awaitLine);
        listener.setDaemon(true);
        listener.start();
        AtomicInteger next = new AtomicInteger();
        Thread[] senders = new Thread[options.number("threads", 1)];
        for (int i = 0; i < senders.length; i++) {
            senders[i] = new Thread(() -> sendAll(producer, options, next));
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

    private static void awaitLine() {
        try {
            System.in.read();
        } catch (java.io.IOException e) {
            System.out.println("INPUT " + e);
        }
        goesOn = false;
    }

    private static void send(DefaultMQProducer producer, Message message, String padding) throws InterruptedException {
        String key = message.getKeys();
        if (!padding.isEmpty()) {
            message.putUserProperty("padding", padding);
        }
        try {
            SendResult result = producer.send(message);
            if (result.getSendStatus() == SendStatus.SEND_OK) {
                report("OK", key, String.valueOf(portOf(result.getOffsetMsgId())));
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
    }

    /** The id that a broker gives a message begins with its own address: four bytes of IP, four of the port. */
    private static int portOf(String offsetMessageId) {
        return Integer.parseInt(offsetMessageId.substring(8, 16), 16);
    }

    private static void report(String what, String key, String detail) {
        String line = detail.replaceAll("\\s+", " ");
        System.out.println(what + " " + System.currentTimeMillis() + " " + key + " " + line);
    }
}
