import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * A file of what was sent and received, one line for each, its words split by tabs:
 * <pre>
 * A unixMillis producer id key keySequence brokerName queueId offset                        acknowledged
 * F unixMillis producer id key keySequence code reason                                      failed, or nobody knows
 * C unixMillis group client id key keySequence brokerName queueId offset reconsumeTimes     consumed
 * </pre>
 * A line is written before the broker learns that a message was consumed, so that a killed process has recorded what
 * it has acknowledged.
 */
final class TrafficRecords {
    private final FileOutputStream file;

    TrafficRecords(String path) throws IOException {
        file = new FileOutputStream(path, true);
    }

    void acknowledged(String producer, String message, SendResult result) {
        write("A", producer, message, result.getMessageQueue().getBrokerName(),
            result.getMessageQueue().getQueueId(), result.getQueueOffset());
    }

    /** A message that nobody acknowledges. */
    void taken(String producer, String message) {
        write("A", producer, message, "-", -1, -1);
    }

    void failed(String producer, String message, String code, String reason) {
        write("F", producer, message, code, String.valueOf(reason).replaceAll("\\s+", " "));
    }

    void consumed(String group, String client, MessageExt message) {
        write("C", group, client, new String(message.getBody(), StandardCharsets.UTF_8),
            message.getBrokerName(), message.getQueueId(), message.getQueueOffset(), message.getReconsumeTimes());
    }

    private synchronized void write(String kind, Object... words) {
        StringBuilder line = new StringBuilder(kind).append('\t').append(System.currentTimeMillis());
        for (Object word : words) {
            line.append('\t').append(word);
        }
        try {
            file.write(line.append('\n').toString().getBytes(StandardCharsets.UTF_8));
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
    }
}
