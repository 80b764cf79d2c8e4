import java.nio.charset.StandardCharsets;
import java.util.Set;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Reads a topic from beginning to end for each line of standard input, and prints {@code KEY body} for every message,
 * then {@code SCANNED count}, or {@code UNREADABLE reason} if a queue cannot be read to its end.
 */
public final class Scan {
    private static final int BATCH = 32;

    private Scan() {
    }

    @SuppressWarnings("deprecation")
    public static void main(String[] args) throws Exception {
        Options options = new Options(args);
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(options.text("group"));
        consumer.setNamesrvAddr(options.text("namesrv"));
        consumer.setPollNameServerInterval(options.number("poll-ms", 1000));
        consumer.start();
        System.out.println("READY");
        for (int read = System.in.read(); read >= 0; read = System.in.read()) {
            if (read != '\n') {
                continue;
            }
            try {
                System.out.println("SCANNED " + scan(consumer, options.text("topic")));
            } catch (Exception e) {
                System.out.println("UNREADABLE " + e.toString().replaceAll("\\s+", " "));
            }
        }
        System.exit(0);
    }

    @SuppressWarnings("deprecation")
    private static int scan(DefaultMQPullConsumer consumer, String topic) throws Exception {
        int count = 0;
        Set<MessageQueue> queues = consumer.fetchSubscribeMessageQueues(topic);
        for (MessageQueue queue : queues) {
            long end = consumer.maxOffset(queue);
            long offset = consumer.minOffset(queue);
            while (offset < end) {
                PullResult result = consumer.pull(queue, "*", offset, BATCH);
                if (result.getPullStatus() == PullStatus.FOUND) {
                    StringBuilder lines = new StringBuilder();
                    result.getMsgFoundList().forEach(message ->
                        lines.append("KEY ").append(new String(message.getBody(), StandardCharsets.UTF_8)).append('\n'));
                    System.out.print(lines);
                    count += result.getMsgFoundList().size();
                } else if (result.getNextBeginOffset() <= offset) {
                    throw new IllegalStateException(queue + " ends at " + offset + " instead of " + end);
                }
                offset = result.getNextBeginOffset();
            }
        }
        System.out.flush();
        return count;
    }
}
