/* Passes Ethernet frames between hosts, each at one end of a cable with a latency and a rate.

     relay LATENCY_NS BYTES_PER_SECOND TAP...

   TAP: a descriptor for each host, whose hardware address ends in its number.  "1 0\n" on the input takes the cable of
   host 1 out, "1 1\n" puts it back; at the end of the input the relay ends.  A frame occupies the cable of its sender,
   then that of its receiver, while its bytes pass at the rate; it begins to arrive when the latency has passed. */
#define _GNU_SOURCE
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { HOSTS = 64, FRAME = 65536, WIRE_BYTES = 24 /* preamble, checksum, gap */, AHEAD_NS = 20000 };

typedef struct Frame {
    struct Frame *next;
    int64_t due;
    int source, size;
    char bytes[];
} Frame;

static Frame *first[HOSTS], *last[HOSTS]; /* on their way to each host, in the order in which they will arrive */
static int64_t sends_until[HOSTS], receives_until[HOSTS];
static int tap[HOSTS], is_out[HOSTS], hosts;
static int64_t latency;
static double ns_per_byte;

static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void send_to(int target, int source, const char *bytes, int size, int64_t began, int64_t cost) {
    Frame *frame = malloc(sizeof *frame + size);
    if (!frame) return; /* lost, as on a real network */
    int64_t due = later(began + latency, receives_until[target]) + cost;
    *frame = (Frame){NULL, due, source, size};
    receives_until[target] = due;
    memcpy(frame->bytes, bytes, size);
    if (first[target]) last[target]->next = frame;
    else first[target] = frame;
    last[target] = frame;
}

static void take_from(int source) {
    static char bytes[FRAME];
    int size = read(tap[source], bytes, FRAME);
    if (size < 14 || is_out[source]) return;
    int64_t cost = (size + WIRE_BYTES) * ns_per_byte, began = later(now(), sends_until[source]);
    sends_until[source] = began + cost;
    int is_for_all = bytes[0] & 1, address = (unsigned char)bytes[5];
    for (int target = 0; target < hosts; target++)
        if (target != source && (is_for_all || address == target)) send_to(target, source, bytes, size, began, cost);
}

/* Hands out what has arrived by now; the time at which the next frame will have. */
static int64_t hand_out(int target, int64_t time) {
    while (first[target]) {
        Frame *frame = first[target];
        if (frame->due > time) return frame->due;
        if (!is_out[target] && !is_out[frame->source] && write(tap[target], frame->bytes, frame->size) < 0) {
        } /* the host takes no more: lost */
        first[target] = frame->next;
        free(frame);
    }
    return INT64_MAX;
}

int main(int count, char **words) {
    latency = atoll(words[1]);
    ns_per_byte = atof(words[2]) > 0 ? 1e9 / atof(words[2]) : 0;
    hosts = count - 3;
    for (int i = 0; i < hosts; i++) tap[i] = atoi(words[i + 3]);
    prctl(PR_SET_TIMERSLACK, 1);
    struct sched_param first_of_all = {10};
    sched_setscheduler(0, SCHED_FIFO, &first_of_all); /* if permitted: ranks that poll must not delay frames */
    for (;;) {
        int64_t time = now(), next = time + 1000000000;
        for (int target = 0; target < hosts; target++) {
            int64_t due = hand_out(target, time);
            if (due < next) next = due;
        }
        struct pollfd polled[HOSTS + 1] = {{0, POLLIN, 0}};
        for (int i = 0; i < hosts; i++) { /* a busy cable takes nothing more, and its host's queue fills */
            int64_t ready = sends_until[i] - AHEAD_NS;
            int is_busy = ready > time;
            polled[i + 1] = (struct pollfd){is_busy ? -1 : tap[i], POLLIN, 0};
            if (is_busy && ready < next) next = ready;
        }
        int64_t left = later(next - now(), 0);
        struct timespec wait = {left / 1000000000, left % 1000000000};
        if (ppoll(polled, hosts + 1, &wait, NULL) <= 0) continue;
        if (polled[0].revents) {
            char line[32];
            int size = read(0, line, sizeof line - 1), host, is_in;
            if (size <= 0) return 0;
            line[size] = 0;
            if (sscanf(line, "%d %d", &host, &is_in) == 2 && host >= 0 && host < hosts) is_out[host] = !is_in;
        }
        for (int i = 0; i < hosts; i++)
            if (polled[i + 1].revents & POLLIN) take_from(i);
    }
}
