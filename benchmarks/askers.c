/*
 * askers PORT FRAME -c CONNECTIONS -q QPS -s SECONDS
 *
 * Clients that send the request in the file FRAME at a pace, whether or not earlier ones are answered: open loop, so a
 * slow answer delays no other request. Prints `ready` when all are connected, and one JSON line at the end: requests,
 * errors, and latencies in milliseconds from when a request was due until its answer was whole. Loopback only.
 *
 * In C because what it measures is shorter than what an interpreter of its own would take from the same two cores.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define RING 65536
#define FRAME_MAX (1 << 20)
#define ANSWER_S 30

struct asker {
    int fd;
    uint32_t have, first, waiting;
    char *buffer;
    double *due; /* of the requests that are not answered yet, a ring */
};

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static int order(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double *latencies;
static long answered, errors;

static void take_answers(struct asker *a) {
    ssize_t got;
    while ((got = read(a->fd, a->buffer + a->have, FRAME_MAX - a->have)) > 0) {
        uint32_t at = 0;
        a->have += got;
        while (a->have - at >= 4) {
            uint32_t length;
            memcpy(&length, a->buffer + at, 4);
            length = ntohl(length);
            if (length > FRAME_MAX - 4) {
                fprintf(stderr, "an answer of %u bytes\n", length);
                exit(1);
            }
            if (a->have - at < 4 + length) break;
            uint32_t head = length < 200 ? length : 200;
            errors += memmem(a->buffer + at + 4, head, "\"code\":0,", 9) == NULL;
            latencies[answered++] = (now_s() - a->due[a->first % RING]) * 1e3;
            a->first++;
            a->waiting--;
            at += 4 + length;
        }
        memmove(a->buffer, a->buffer + at, a->have - at);
        a->have -= at;
    }
    if (got == 0 || (got < 0 && errno != EAGAIN)) {
        fprintf(stderr, "the server closed a connection\n");
        exit(1);
    }
}

int main(int argc, char **argv) {
    int connections = 16, option;
    double qps = 1000, seconds = 5;
    while ((option = getopt(argc, argv, "c:q:s:")) != -1) switch (option) {
        case 'c': connections = atoi(optarg); break;
        case 'q': qps = atof(optarg); break;
        case 's': seconds = atof(optarg); break;
        default: return 2;
    }
    if (argc - optind != 2 || connections < 1 || qps <= 0) {
        fprintf(stderr, "usage: askers -c CONNECTIONS -q QPS -s SECONDS PORT FRAME\n");
        return 2;
    }
    static char frame[65536];
    int file = open(argv[optind + 1], O_RDONLY);
    ssize_t size = file < 0 ? -1 : read(file, frame, sizeof frame);
    if (size <= 0) fail(argv[optind + 1]);

    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[optind]))};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    struct asker *askers = calloc(connections, sizeof *askers);
    int poll = epoll_create1(0), timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK), one = 1;
    prctl(PR_SET_TIMERSLACK, 1);
    for (int i = 0; i < connections; i++) {
        struct asker *a = &askers[i];
        a->fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(a->fd, (struct sockaddr *)&to, sizeof to) < 0) fail("connect");
        setsockopt(a->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        fcntl(a->fd, F_SETFL, O_NONBLOCK);
        a->buffer = malloc(FRAME_MAX);
        a->due = malloc(RING * sizeof *a->due);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = a};
        epoll_ctl(poll, EPOLL_CTL_ADD, a->fd, &event);
    }
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL}, ready[256];
    epoll_ctl(poll, EPOLL_CTL_ADD, timer, &event);
    long wanted = (long)(qps * seconds), sent = 0;
    latencies = malloc((wanted + 1) * sizeof *latencies);
    puts("ready");
    fflush(stdout);

    double began = now_s(), end = began + seconds + ANSWER_S;
    while (answered < wanted && now_s() < end) {
        double due;
        while (sent < wanted && (due = began + sent / qps) <= now_s()) {
            struct asker *a = &askers[sent % connections];
            if (a->waiting == RING || write(a->fd, frame, size) != size) {
                fprintf(stderr, "a connection takes no more requests\n");
                return 1;
            }
            a->due[(a->first + a->waiting++) % RING] = due;
            sent++;
        }
        if (sent < wanted) {
            due = began + sent / qps;
            struct itimerspec when = {.it_value = {(time_t)due, (long)((due - (time_t)due) * 1e9)}};
            timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, NULL);
        }
        int count = epoll_wait(poll, ready, 256, 1000);
        for (int i = 0; i < count; i++) {
            uint64_t rings;
            if (ready[i].data.ptr) take_answers(ready[i].data.ptr);
            else if (read(timer, &rings, sizeof rings) < 0 && errno != EAGAIN) fail("timer");
        }
    }
    errors += sent - answered;
    if (!answered) latencies[answered++] = 0;
    qsort(latencies, answered, sizeof *latencies, order);
#define AT(share) latencies[(long)(answered * share) < answered ? (long)(answered * share) : answered - 1]
    printf("{\"requests\": %ld, \"errors\": %ld, \"p50_ms\": %.4f, \"p99_ms\": %.4f, \"p999_ms\": %.4f, \"max_ms\": %.4f}\n",
           sent, errors, AT(.5), AT(.99), AT(.999), latencies[answered - 1]);
    return 0;
}
