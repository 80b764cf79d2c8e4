/*
 * controller_load PORT -n SETS -c CONNECTIONS -s SECONDS [-w WARM_UP_S] [-a ALTERATIONS/S] [-r REGISTRATIONS/S]
 *
 * The brokers of many broker sets, three in each, at one controller; replicas share connections if there are fewer. Each
 * broker gets its id and starts as a real one does (1012, 1013, 1003), then beats each second (904, one-way) and asks who
 * leads each 5 s (1004). The first of a set asks for an election (1002) and reports all three in sync (1001); it is a
 * master for a controller that asks (907). Then, for SECONDS, slaves register again (1003) and masters report one slave
 * less or more (1001), at the paces given. A controller that asks a broker for its properties (26) gets as many bytes as
 * of a real one. All is sent when it is due, whether or not earlier requests are answered. Prints one JSON line when all
 * are set up and one after the measured time; beats go on until standard input ends. Loopback only.
 *
 * In C because 11,000 requests a second out of an interpreter would take the core that the controller may need.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define REPLICAS 3
#define BEAT_S 1.0
#define POLL_S 5.0
#define TICK_NS 500000
#define SETS_AT_ONCE 32
#define AGAIN_S 0.1
#define TRIES 50
#define FRAME_MAX 4096
#define KINDS 8
#define SAMPLES 1000000
#define OFFSET_DIGITS 12
#define PROPERTIES 30000

enum kind { NEXT_ID, APPLY_ID, REGISTER, ELECT, ALTER, POLL, BEAT };
static const int codes[] = {1012, 1013, 1003, 1002, 1001, 1004, 904};

struct connection {
    int fd, is_call, is_master; /* a call is from the controller to a broker */
    uint32_t have;
    char buffer[FRAME_MAX];
};

struct replica {
    struct connection *over;
    double due[KINDS]; /* when the request that is under way was due, 0 if none is */
    int is_up, beat_size;
    char *beat, *offset;
};

struct set {
    int step, tries, epoch, members;
    double again;
};

static int sets = 3000, connections = 9000, port, broker_port, listener, up, finished, begun, failures, is_measuring;
static long retries, unanswered;
static char properties[PROPERTIES] = "inSyncReplicas=1\n"; /* of every broker; the rest is filled in `main` */
static struct replica *replicas;
static struct set *all;
static struct {
    float *ms;
    long count, errors;
} tally[KINDS], late;

/* One address for each; a controller that calls there is answered, see `welcome`. */
static const char *address(int i) {
    static char text[32];
    snprintf(text, sizeof text, "127.77.%d.%d:%d", i / 250, i % 250 + 1, broker_port);
    return text;
}

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void push(struct connection *c, const char *frame, int size) {
    if (write(c->fd, frame, size) != size) fail("a connection takes no more requests");
}

/* Puts a frame together and returns its size; the opaque tells whose request of which kind it is. */
static int framed(char *frame, enum kind kind, int replica, const char *fields, const char *body) {
    int head = snprintf(frame + 8, FRAME_MAX - 8,
                        "{\"code\":%d,\"extFields\":{%s},\"flag\":%d,\"language\":\"JAVA\",\"opaque\":%d,"
                        "\"serializeTypeCurrentRPC\":\"JSON\",\"version\":513}%s",
                        codes[kind], fields, kind == BEAT ? 2 : 0, replica * KINDS + kind, body) -
               (int)strlen(body);
    uint32_t words[2] = {htonl(4 + head + strlen(body)), htonl(head)};
    memcpy(frame, words, sizeof words);
    return 8 + head + strlen(body);
}

/* A log is in no epoch before its set has a master. */
/* Before the first election logs are empty: messages in a set that never had a master prove that the store lost it. */
static void prepare_beat(int i, int epoch) {
    const char *log_end = epoch < 0 ? "0" : "100000000000";
    char fields[512], frame[FRAME_MAX];
    snprintf(fields, sizeof fields,
             "\"brokerAddr\":\"%s\",\"brokerId\":\"%d\",\"brokerName\":\"bench-set-%d\",\"clusterName\":"
             "\"bench-cluster\",\"confirmOffset\":\"%s\",\"electionPriority\":\"2147483647\",\"epoch\":\"%d\","
             "\"heartbeatTimeoutMills\":\"10000\",\"maxOffset\":\"%s\"",
             address(i), i % REPLICAS + 1, i / REPLICAS, log_end, epoch, log_end);
    struct replica *r = &replicas[i];
    free(r->beat);
    r->beat_size = framed(frame, BEAT, i, fields, "");
    r->beat = memcpy(malloc(r->beat_size), frame, r->beat_size);
    r->offset = epoch < 0 ? NULL : (char *)memmem(r->beat, r->beat_size, "\"maxOffset\":\"", 13) + 13;
}

/* Its log has become longer since the last beat, as under load. */
static void beat(struct replica *r) {
    for (int at = OFFSET_DIGITS - 4; r->offset && at > 0 && ++r->offset[at] > '9'; at--) r->offset[at] = '0';
    push(r->over, r->beat, r->beat_size);
}

static void ask(enum kind kind, int i, double due) {
    struct replica *r = &replicas[i];
    struct set *s = &all[i / REPLICAS];
    char fields[512], body[128] = "", frame[FRAME_MAX];
    int id = i % REPLICAS + 1, name = i / REPLICAS;
    int64_t unix_ms = (int64_t)time(NULL) * 1000;
    if (r->due[kind]) { /* a broker has one at a time */
        unanswered++;
        return;
    }
    switch (kind) {
    case NEXT_ID:
        snprintf(fields, sizeof fields, "\"brokerName\":\"bench-set-%d\",\"clusterName\":\"bench-cluster\"", name);
        break;
    case APPLY_ID:
        snprintf(fields, sizeof fields,
                 "\"appliedBrokerId\":\"%d\",\"brokerName\":\"bench-set-%d\",\"clusterName\":\"bench-cluster\","
                 "\"registerCheckCode\":\"%s;1758270000000\"", id, name, address(i));
        break;
    case REGISTER:
        snprintf(fields, sizeof fields,
                 "\"brokerAddress\":\"%s\",\"brokerId\":\"%d\",\"brokerName\":\"bench-set-%d\","
                 "\"clusterName\":\"bench-cluster\",\"invokeTime\":\"%ld\"", address(i), id, name, (long)unix_ms);
        break;
    case ELECT:
        snprintf(fields, sizeof fields,
                 "\"brokerId\":\"%d\",\"brokerName\":\"bench-set-%d\",\"clusterName\":\"bench-cluster\","
                 "\"designateElect\":\"false\",\"invokeTime\":\"%ld\"", id, name, (long)unix_ms);
        break;
    case ALTER:
        snprintf(fields, sizeof fields,
                 "\"brokerName\":\"bench-set-%d\",\"invokeTime\":\"%ld\",\"masterBrokerId\":\"1\",\"masterEpoch\":\"1\"",
                 name, (long)unix_ms);
        snprintf(body, sizeof body, "{\"syncStateSet\":[%s],\"syncStateSetEpoch\":%d}",
                 s->members == REPLICAS ? "1,2" : "1,2,3", s->epoch);
        break;
    default:
        snprintf(fields, sizeof fields, "\"brokerName\":\"bench-set-%d\"", name);
    }
    r->due[kind] = due;
    push(r->over, frame, framed(frame, kind, i, fields, body));
}

/* The steps of a set, one after the other: each replica's id and start, then an election and the SyncStateSet. */
static void step(int number) {
    struct set *s = &all[number];
    int of_replicas = 3 * REPLICAS, i = number * REPLICAS;
    if (s->step < of_replicas) ask(s->step % 3 == 0 ? NEXT_ID : s->step % 3 == 1 ? APPLY_ID : REGISTER, i + s->step / 3, now_s());
    else if (s->step == of_replicas) ask(ELECT, i, now_s());
    else if (s->step == of_replicas + 1) ask(ALTER, i, now_s());
    else finished++;
}

static void begin_sets(void) {
    while (begun < sets && begun - finished < SETS_AT_ONCE) {
        all[begun] = (struct set){.epoch = 1, .members = 1};
        step(begun++);
    }
}

/* A request is sent again when the controller could not tell whether it was stored; then it may be so already. */
static int is_done(enum kind kind, const struct set *s, char *text, int size) {
    if (memmem(text, size, "\"code\":0,", 9)) return 1;
    if (!s->tries || s->step > 3 * REPLICAS + 1) return 0;
    if (kind == ELECT) return memmem(text, size, "\"code\":2011,", 12) != NULL;
    return kind == ALTER && (memmem(text, size, "\"code\":2001,", 12) || memmem(text, size, "\"code\":2013,", 12));
}

static void answered(int opaque, char *text, int size) {
    enum kind kind = opaque % KINDS;
    int i = opaque / KINDS;
    if (kind >= BEAT || i >= sets * REPLICAS) return;
    struct replica *r = &replicas[i];
    struct set *s = &all[i / REPLICAS];
    double took = now_s() - r->due[kind];
    r->due[kind] = 0;
    if (is_measuring && tally[kind].count < SAMPLES) tally[kind].ms[tally[kind].count++] = took * 1e3;
    if (!is_done(kind, s, text, size)) {
        tally[kind].errors += is_measuring;
        if (failures++ < 5) fprintf(stderr, "code %d of replica %d: %.*s\n", codes[kind], i, size, text);
        if (s->step > 3 * REPLICAS + 1) return;
        if (++s->tries > TRIES) {
            fprintf(stderr, "given up after %d tries: %.*s\n", TRIES, size, text);
            exit(1);
        }
        retries++;
        s->again = now_s() + AGAIN_S;
        return;
    }
    if (kind == ALTER) {
        s->epoch++;
        s->members = s->members == REPLICAS ? 2 : REPLICAS;
    }
    if (kind == ELECT)
        for (int member = 0; member < REPLICAS; member++) prepare_beat(i + member, 1);
    if (kind == REGISTER && !r->is_up) {
        r->is_up = 1;
        up++;
        beat(r);
    }
    if (kind != POLL && s->step <= 3 * REPLICAS + 1) {
        s->step++;
        step(i / REPLICAS);
    }
}

/* Takes a call of the controller to a broker, which is the one that has this address. */
static void welcome(int poll) {
    int fd;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        struct connection *c = calloc(1, sizeof *c);
        struct sockaddr_in at;
        socklen_t size = sizeof at;
        int room = 2 * PROPERTIES;
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
        getsockname(fd, (struct sockaddr *)&at, &size);
        uint32_t host = ntohl(at.sin_addr.s_addr);
        c->fd = fd;
        c->is_call = 1;
        c->is_master = ((host >> 8 & 255) * 250 + (host & 255) - 1) % REPLICAS == 0;
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
        epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event);
    }
}

static void answer_call(struct connection *c, char *text, int size) {
    static char frame[PROPERTIES + 256];
    char *opaque = memmem(text, size, "\"opaque\":", 9);
    const char *body = "";
    if (!opaque) fail("a call without opaque");
    if (memmem(text, size, "\"code\":907,", 11)) body = c->is_master ? "{\"master\":true}" : "{\"master\":false}";
    if (memmem(text, size, "\"code\":26,", 10)) body = properties;
    int head = snprintf(frame + 8, sizeof frame - 8,
                        "{\"code\":%d,\"flag\":1,\"language\":\"JAVA\",\"opaque\":%d,\"remark\":\"%s\","
                        "\"serializeTypeCurrentRPC\":\"JSON\",\"version\":513}%s", *body ? 0 : 3, atoi(opaque + 9),
                        *body ? "" : "not supported", body) - (int)strlen(body);
    uint32_t words[2] = {htonl(4 + head + strlen(body)), htonl(head)};
    memcpy(frame, words, sizeof words);
    push(c, frame, 8 + head + strlen(body));
}

static void take_answers(struct connection *c) {
    ssize_t got;
    while ((got = read(c->fd, c->buffer + c->have, sizeof c->buffer - c->have)) > 0) {
        uint32_t at = 0, length;
        c->have += got;
        while (c->have - at >= 4) {
            memcpy(&length, c->buffer + at, 4);
            length = ntohl(length);
            if (length > FRAME_MAX - 4) {
                fprintf(stderr, "an answer of %u bytes\n", length);
                exit(1);
            }
            if (c->have - at < 4 + length) break;
            char *text = c->buffer + at + 8, *opaque = memmem(text, length - 4, "\"opaque\":", 9);
            if (!opaque) fail("an answer without opaque");
            if (c->is_call) answer_call(c, text, length - 4);
            else answered(atoi(opaque + 9), text, length - 4);
            at += 4 + length;
        }
        memmove(c->buffer, c->buffer + at, c->have - at);
        c->have -= at;
    }
    if (got == 0 || (got < 0 && errno != EAGAIN)) {
        if (c->is_call) {
            close(c->fd);
            free(c);
            return;
        }
        fprintf(stderr, "the controller closed a connection\n");
        exit(1);
    }
}

static int order(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void print_times(const char *name, float *ms, long count, long errors) {
    if (!count) ms[count++] = 0;
    qsort(ms, count, sizeof *ms, order);
#define AT(share) ms[(long)(count * share) < count ? (long)(count * share) : count - 1]
    printf("\"%s\": {\"count\": %ld, \"errors\": %ld, \"p50_ms\": %.3f, \"p99_ms\": %.3f, \"max_ms\": %.3f}, ", name, count,
           errors, AT(.5), AT(.99), ms[count - 1]);
}

static void connect_all(struct connection *opened, int poll) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int one = 1;
    for (int i = 0; i < connections; i++) {
        struct connection *c = &opened[i];
        c->fd = socket(AF_INET, SOCK_STREAM, 0);
        if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&to, sizeof to) < 0) fail("connect");
        setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        fcntl(c->fd, F_SETFL, O_NONBLOCK);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
        epoll_ctl(poll, EPOLL_CTL_ADD, c->fd, &event);
    }
}

/* The one socket of all brokers. */
static void listen_all(int poll) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    socklen_t size = sizeof at;
    listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    /* All of 127.0.0.0/8 is reached over this device, and from outside nothing is. */
    if (setsockopt(listener, SOL_SOCKET, SO_BINDTODEVICE, "lo", 3) < 0) fail("SO_BINDTODEVICE");
    if (bind(listener, (struct sockaddr *)&at, size) < 0 || listen(listener, 1024) < 0) fail("listen");
    getsockname(listener, (struct sockaddr *)&at, &size);
    broker_port = ntohs(at.sin_port);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &listener};
    epoll_ctl(poll, EPOLL_CTL_ADD, listener, &event);
}

/* What is due of something that comes `pace` times a second since `began`: `number` of them are sent. */
static double due_of(double began, double pace, long number) { return began + number / pace; }

int main(int argc, char **argv) {
    double seconds = 60, warm_up = 5, alterations = 20, registrations = 20;
    int option;
    while ((option = getopt(argc, argv, "n:c:s:w:a:r:")) != -1) switch (option) {
        case 'n': sets = atoi(optarg); break;
        case 'c': connections = atoi(optarg); break;
        case 's': seconds = atof(optarg); break;
        case 'w': warm_up = atof(optarg); break;
        case 'a': alterations = atof(optarg); break;
        case 'r': registrations = atof(optarg); break;
        default: return 2;
    }
    if (argc - optind != 1 || sets < 1 || connections < 1 || alterations <= 0 || registrations <= 0) {
        fprintf(stderr, "usage: controller_load -n SETS -c CONNECTIONS -s SECONDS [-w S] [-a PER_S] [-r PER_S] PORT\n");
        return 2;
    }
    port = atoi(argv[optind]);
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    prctl(PR_SET_TIMERSLACK, 1);
    signal(SIGPIPE, SIG_IGN);

    for (int at = strlen(properties), line = 0; at < PROPERTIES - 64; line++)
        at += sprintf(properties + at, "aPropertyOfAverageLength%d=true\n", line);
    int count = sets * REPLICAS, poll = epoll_create1(0), timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    struct connection *opened = calloc(connections, sizeof *opened);
    replicas = calloc(count, sizeof *replicas);
    all = calloc(sets, sizeof *all);
    for (int kind = 0; kind < KINDS; kind++) tally[kind].ms = malloc(SAMPLES * sizeof(float));
    late.ms = malloc((long)(count * (seconds + 1) / BEAT_S + 2) * sizeof(float));
    double started = now_s();
    listen_all(poll);
    connect_all(opened, poll);
    double connected = now_s();
    for (int i = 0; i < count; i++) {
        replicas[i].over = &opened[i % connections];
        prepare_beat(i, -1);
    }
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &timer}, ready[512];
    epoll_ctl(poll, EPOLL_CTL_ADD, timer, &event);
    event.data.ptr = NULL;
    epoll_ctl(poll, EPOLL_CTL_ADD, STDIN_FILENO, &event);
    struct itimerspec each = {{0, TICK_NS}, {0, TICK_NS}};
    timerfd_settime(timer, 0, &each, NULL);
    begin_sets();

    double began = now_s(), set_up = 0, measured_from = 0;
    long beats = 0, polls = 0, altered = 0, registered = 0, is_printed = 0;
    for (;;) {
        double now = now_s(), due;
        for (; (due = due_of(began, count / BEAT_S, beats)) <= now; beats++) {
            struct replica *r = &replicas[beats % count];
            if (!r->is_up) continue;
            beat(r);
            if (is_measuring) late.ms[late.count++] = (now_s() - due) * 1e3;
        }
        for (; (due = due_of(began, count / POLL_S, polls)) <= now; polls++)
            if (set_up) ask(POLL, polls % count, due);
        if (!set_up) {
            begin_sets();
            for (int i = 0; i < begun; i++)
                if (all[i].again && all[i].again <= now) {
                    all[i].again = 0;
                    step(i);
                }
            if (finished == sets) {
                set_up = now_s();
                printf("{\"connected_s\": %.2f, \"set_up_s\": %.2f, \"requests\": %d, \"repeated\": %ld}\n",
                       connected - started, set_up - began, sets * (3 * REPLICAS + 2), retries);
                fflush(stdout);
            }
        } else if (!measured_from && now >= set_up + warm_up) {
            measured_from = now;
            is_measuring = 1;
            puts("measuring");
            fflush(stdout);
        }
        if (is_measuring) {
            for (; (due = due_of(measured_from, alterations, altered)) <= now; altered++)
                ask(ALTER, altered % sets * REPLICAS, due);
            /* Only slaves: who leads and starts again has lost its role. */
            for (; (due = due_of(measured_from, registrations, registered)) <= now; registered++)
                ask(REGISTER, (registered + sets / 2) % sets * REPLICAS + 1 + registered % 2, due);
            if (now >= measured_from + seconds) {
                is_measuring = 0;
                is_printed = 1;
                putchar('{');
                print_times("1001", tally[ALTER].ms, tally[ALTER].count, tally[ALTER].errors);
                print_times("1003", tally[REGISTER].ms, tally[REGISTER].count, tally[REGISTER].errors);
                print_times("1004", tally[POLL].ms, tally[POLL].count, tally[POLL].errors);
                print_times("beats_late", late.ms, late.count, 0);
                printf("\"beats_per_s\": %.0f, \"unanswered\": %ld}\n", late.count / seconds, unanswered);
                fflush(stdout);
                measured_from = now + 1e9;
            }
        }
        int got = epoll_wait(poll, ready, 512, 100);
        for (int i = 0; i < got; i++) {
            uint64_t rings;
            if (ready[i].data.ptr == NULL) {
                if (read(STDIN_FILENO, &rings, sizeof rings) <= 0) return is_printed ? 0 : 1;
            } else if (ready[i].data.ptr == &timer) {
                if (read(timer, &rings, sizeof rings) < 0 && errno != EAGAIN) fail("timer");
            } else if (ready[i].data.ptr == &listener) welcome(poll);
            else take_answers(ready[i].data.ptr);
        }
    }
}
