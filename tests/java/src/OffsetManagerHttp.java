import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;

/**
 * Requests of one group to offset managers: the one that leads is found by what the others answer. A request ends within
 * {@link #TIMEOUT} for each address that is tried, two more than there are at most.
 *
 * <p>Every method throws IOException if no manager has done it, or nobody knows whether one has: all of them may be
 * repeated.
 */
final class OffsetManagerHttp {
    static final Duration TIMEOUT = Duration.ofSeconds(3);
    private static final int SUCCESS = 2;
    private static final int NOT_NOW = 503;

    private final List<String> addresses;
    private final String token;
    private final String group;
    private final HttpClient http = HttpClient.newBuilder()
        .version(HttpClient.Version.HTTP_1_1).connectTimeout(Duration.ofSeconds(1)).build();
    private volatile String leader;

    /** One offset of a queue, and what a manager needs to judge it. */
    static final class Entry {
        final MessageQueue queue;
        final long offset;
        final long resetEpoch;

        Entry(MessageQueue queue, long offset, long resetEpoch) {
            this.queue = queue;
            this.offset = offset;
            this.resetEpoch = resetEpoch;
        }
    }

    /** What a manager answers for one queue; numbers are -1 where it has none. */
    static final class Result {
        final String status;
        final String reason;
        final long offset;
        final long resetEpoch;

        Result(Map<?, ?> result) {
            status = (String) result.get("status");
            reason = result.get("reason") == null ? "" : (String) result.get("reason");
            Map<?, ?> stored = (Map<?, ?>) result.get("stored");
            offset = stored == null ? -1 : number(stored.get("offset"), -1);
            // Of a queue that was not found it is that of its deletion, absent without one.
            resetEpoch = stored == null ? number(result.get("resetEpoch"), status.equals("not_found") ? 0 : -1)
                : number(stored.get("resetEpoch"), -1);
        }

        private static long number(Object value, long otherwise) {
            return value == null ? otherwise : ((Number) value).longValue();
        }
    }

    /** A manager has answered, and done nothing. */
    static final class Refused extends IOException {
        private static final long serialVersionUID = 1;
        final int status;

        Refused(int status, String sentence) {
            super(sentence);
            this.status = status;
        }
    }

    /** @param addresses host:port, split by semicolons; @param token blank where managers need none */
    OffsetManagerHttp(String addresses, String group, String token) {
        this.addresses = List.of(addresses.split(";"));
        this.group = group;
        this.token = token;
        leader = this.addresses.get(0);
    }

    /** Returns the stored offset of a queue: {@code ok}, {@code not_found} or {@code unavailable}. */
    Result read(MessageQueue queue) throws IOException, InterruptedException {
        Map<?, ?> answer = post("/v1/offsets/read", Map.of("keys", List.of(named(queue))));
        return results(answer, "results", 1).get(0);
    }

    /** Commits at most 100 entries, and returns what became of each. */
    List<Result> commit(String writer, List<Entry> entries) throws IOException, InterruptedException {
        List<Map<String, Object>> items = new ArrayList<>();
        for (Entry entry : entries) {
            Map<String, Object> item = named(entry.queue);
            item.put("offset", entry.offset);
            item.put("resetEpoch", entry.resetEpoch);
            items.add(item);
        }
        Map<?, ?> answer = post("/v1/offsets/commit", Map.of("writer", writer, "entries", items));
        return results(answer, "results", entries.size());
    }

    /** Lets a queue go back to an offset, in a new reset epoch. Where managers have tokens, an operator's is needed. */
    Result reset(String writer, MessageQueue queue, long offset) throws IOException, InterruptedException {
        Map<String, Object> item = named(queue);
        item.put("offset", offset);
        Map<?, ?> answer = post("/v1/offsets/reset", Map.of("writer", writer, "entries", List.of(item)));
        return results(answer, "queues", 1).get(0);
    }

    private Map<String, Object> named(MessageQueue queue) {
        Map<String, Object> item = new HashMap<>();
        item.put("group", group);
        item.put("topic", queue.getTopic());
        item.put("brokerName", queue.getBrokerName());
        item.put("queueId", queue.getQueueId());
        return item;
    }

    private static List<Result> results(Map<?, ?> answer, String field, int count) throws IOException {
        List<Result> results = new ArrayList<>();
        for (Object each : (List<?>) answer.get(field)) {
            results.add(new Result((Map<?, ?>) each));
        }
        if (results.size() != count) {
            throw new IOException("the offset manager answers " + results.size() + " results for " + count);
        }
        return results;
    }

    private Map<?, ?> post(String path, Object body) throws IOException, InterruptedException {
        String text = RemotingSerializable.toJson(body, false);
        IOException failure = null;
        for (int attempt = 0; attempt < addresses.size() + 2; attempt++) {
            String address = leader;
            try {
                HttpResponse<String> answer = http.send(request(address, path, text),
                    HttpResponse.BodyHandlers.ofString());
                if (answer.statusCode() / 100 == SUCCESS) {
                    return RemotingSerializable.fromJson(answer.body(), Map.class);
                }
                int status = answer.statusCode();
                failure = new Refused(status, address + " answers " + status + ": " + answer.body());
                if (status != NOT_NOW) {
                    break;
                }
                leader = named(answer.body(), address);
            } catch (IOException e) {
                failure = e;
                leader = next(address);
            }
            if (leader.equals(address)) {
                break;
            }
        }
        throw failure;
    }

    private HttpRequest request(String address, String path, String text) {
        HttpRequest.Builder builder = HttpRequest.newBuilder(URI.create("http://" + address + path)).timeout(TIMEOUT)
            .header("Content-Type", "application/json").POST(HttpRequest.BodyPublishers.ofString(text));
        return (token.isBlank() ? builder : builder.header("Authorization", "Bearer " + token)).build();
    }

    /** Returns the leader that a refusal names, or the next address. */
    private String named(String refusal, String address) {
        Map<?, ?> error = (Map<?, ?>) RemotingSerializable.fromJson(refusal, Map.class).get("error");
        Object named = error == null ? null : error.get("leaderAddress");
        return named == null ? next(address) : (String) named;
    }

    private String next(String address) {
        return addresses.get((addresses.indexOf(address) + 1) % addresses.size());
    }
}
