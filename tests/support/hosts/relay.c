/* Passes Ethernet frames between hosts, each at one end of a cable with a latency and a rate.

     relay LATENCY_NS BYTES_PER_SECOND (TAP CORE)...

   TAP: a descriptor for each host, whose hardware address ends in its number; CORE: of that host.  "1 0\n" on the input
   takes the cable of host 1 out, "1 1\n" puts it back; at the end of the input the relay ends.  A frame occupies the
   cable of its sender, then that of its receiver, while its bytes pass at the rate; it begins to arrive when the latency
   has passed.  Frames are taken from the host some time before the cable is free for them, as a network card does, so
   that the cable stands still only if there is none.  As a card does, the relay saves the processor's time where many
   follow each other: it takes several at once, and hands full ones out by threes.

   Each host has a thread on its own core, which hands it what arrives, and takes what the host before it sends: of two
   hosts, each gives its core to what it receives.  On one core, the cables of all would slow one host and not others;
   on that of the sender, each message would take the core from who sends the next one. */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { HOSTS = 64, FRAME = 65536, WIRE_BYTES = 24 /* preamble, checksum, gap */ };
enum { MOST_AHEAD_NS = 300000, LEAST_AHEAD_NS = 120000 }; /* of the cable: frames are taken up to the first */
enum { TOGETHER = 3, FULL = 4096 /* bytes */, HELD_NS = 160000 }; /* frames that are handed out together */

typedef struct Frame {
    struct Frame *next;
    int64_t due;
    int source, size;
    char bytes[];
} Frame;

typedef struct Host {
    int number, tap, core, alarm; /* alarm: wakes its thread */
    int64_t sends_until;
    pthread_mutex_t lock; /* of the rest, which the threads of senders write */
    int64_t receives_until, wakes_at;
    Frame *first, *last; /* on their way to it, in the order in which they will arrive */
} Host;

static Host host[HOSTS];
static atomic_int is_out[HOSTS];
static int hosts;
static int64_t latency;
static double ns_per_byte;

static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void send_to(Host *target, int source, const char *bytes, int size, int64_t began, int64_t cost) {
    Frame *frame = malloc(sizeof *frame + size);
    if (!frame) return; /* lost, as on a real network */
    *frame = (Frame){NULL, 0, source, size};
    memcpy(frame->bytes, bytes, size);
    pthread_mutex_lock(&target->lock);
    frame->due = target->receives_until = later(began + latency, target->receives_until) + cost;
    if (target->first) target->last->next = frame;
    else target->first = frame;
    target->last = frame;
    int sleeps_on = frame->due < target->wakes_at;
    if (sleeps_on) target->wakes_at = frame->due;
    pthread_mutex_unlock(&target->lock);
    if (sleeps_on && write(target->alarm, &(uint64_t){1}, 8) < 0) {
    } /* it is awake */
}

/* Takes frames until the cable has enough to do, or the host has no more. */
static void take_from(Host *source) {
    char bytes[FRAME];
    do {
        int size = read(source->tap, bytes, FRAME);
        if (size < 14) return;
        if (is_out[source->number]) continue;
        int64_t cost = (size + WIRE_BYTES) * ns_per_byte, began = later(now(), source->sends_until);
        source->sends_until = began + cost;
        int is_for_all = bytes[0] & 1, address = (unsigned char)bytes[5];
        for (int target = 0; target < hosts; target++)
            if (target != source->number && (is_for_all || address == target))
                send_to(&host[target], source->number, bytes, size, began, cost);
    } while (source->sends_until > now() && source->sends_until - MOST_AHEAD_NS < now());
}

/* When to hand out the first of these: with two that follow it closely, if all three are full. */
static int64_t hand_out_at(const Frame *frame) {
    int64_t first = frame->due;
    int full = 0;
    for (; frame && frame->due <= first + HELD_NS; frame = frame->next)
        if (frame->size >= FULL && ++full == TOGETHER) return frame->due;
    return first;
}

/* Hands out what has arrived by now.  The time at which to hand out the next frame; ``most`` if that is later. */
static int64_t hand_out(Host *target, int64_t time, int64_t most) {
    for (;;) {
        pthread_mutex_lock(&target->lock);
        Frame *frame = target->first;
        if (frame && frame->due <= time) target->first = frame->next;
        else {
            int64_t next = frame ? hand_out_at(frame) : most;
            target->wakes_at = next < most ? next : most;
        }
        int64_t wakes_at = target->wakes_at;
        pthread_mutex_unlock(&target->lock);
        if (!frame || frame->due > time) return wakes_at;
        if (!is_out[target->number] && !is_out[frame->source] && write(target->tap, frame->bytes, frame->size) < 0) {
        } /* the host takes no more: lost */
        free(frame);
    }
}

static void *serve(void *argument) {
    Host *own = argument, *before = &host[(own->number + hosts - 1) % hosts];
    cpu_set_t core;
    CPU_ZERO(&core);
    CPU_SET(own->core, &core);
    sched_setaffinity(0, sizeof core, &core);
    prctl(PR_SET_TIMERSLACK, 1);
    struct sched_param first_of_all = {10};
    sched_setscheduler(0, SCHED_FIFO, &first_of_all); /* if permitted: ranks that poll must not delay frames */
    for (;;) {
        int64_t time = now(), ready = before->sends_until - LEAST_AHEAD_NS;
        int is_busy = ready > time; /* a busy cable takes nothing more, and its host's queue fills */
        int64_t next = hand_out(own, time, is_busy ? ready : time + 1000000000);
        struct pollfd polled[] = {{own->alarm, POLLIN, 0}, {is_busy ? -1 : before->tap, POLLIN, 0}};
        int64_t left = later(next - now(), 0);
        struct timespec wait = {left / 1000000000, left % 1000000000};
        if (ppoll(polled, 2, &wait, NULL) <= 0) continue;
        uint64_t alarms;
        if (polled[0].revents && read(own->alarm, &alarms, 8) < 0) {
        } /* as good as read */
        if (polled[1].revents & POLLIN) take_from(before);
    }
    return NULL;
}

int main(int count, char **words) {
    latency = atoll(words[1]);
    ns_per_byte = atof(words[2]) > 0 ? 1e9 / atof(words[2]) : 0;
    hosts = (count - 3) / 2;
    for (int i = 0; i < hosts; i++) {
        host[i].number = i, host[i].tap = atoi(words[2 * i + 3]), host[i].core = atoi(words[2 * i + 4]);
        host[i].alarm = eventfd(0, EFD_NONBLOCK);
        pthread_mutex_init(&host[i].lock, NULL);
    }
    for (int i = 0; i < hosts; i++)
        if (pthread_create(&(pthread_t){0}, NULL, serve, &host[i])) return 1;
    char line[32];
    while (fgets(line, sizeof line, stdin)) {
        int number, is_in;
        if (sscanf(line, "%d %d", &number, &is_in) == 2 && number >= 0 && number < hosts) is_out[number] = !is_in;
    }
    return 0;
}
