/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A switch whose links are long: it forwards Ethernet frames between interfaces, late.
 *
 *     link_relay [-r BITS_PER_S] [-d DELAY_US] [-q QUEUE_BYTES] [-l LOSS] [-o REORDER] [-s SEED]
 *                PORT[@SITE]...
 *
 * A frame takes DELAY_US from a port to one of another site; each port is a site of its own where
 * none is given. Within a site nothing is on its way. Between sites each port lets through
 * BITS_PER_S each way, and has a queue of QUEUE_BYTES before each, of which the end is dropped.
 * LOSS and REORDER are shares of frames, chosen by SEED and by the frames' numbers: a reordered one
 * takes an eighth of the delay longer than its followers.
 *
 * Frames that a host has left to its device to cut and to sum up stay so, as the next device does
 * both. Each of them is one frame here: let hosts cut their own (gso_max_segs 1) where single ones
 * are to be lost.
 *
 * For each line that it reads it writes one of counts since it began; it ends with its input:
 * "FORWARDED LOST REORDERED DROPPED LATE": of LATE frames each left more than a millisecond after
 * its time, so that what was measured meanwhile says more of this machine than of the link.
 *
 * Needs CAP_NET_RAW where the interfaces are. Exit: 0; 1 if it cannot run; 2 for its arguments.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

#define PORTS_MAX 64
#define ADDRESSES_MAX 256
#define FRAME_MAX (sizeof(struct virtio_net_hdr) + 14 + 65535 + 64)
#define TURN_FRAMES 64 /* of one port, before others have their turn */
#define PRIORITY -5    /* it is a part of the network */
#define LATE_NS 1000000ull
#define SOCKET_BYTES (32 << 20)
#define REORDER_PARTS 8 /* of the delay: what a reordered frame comes late */

struct frame {
    uint64_t due_ns, number; /* what the heap is ordered by */
    uint32_t to;             /* a port */
    bool arrived;            /* at the far end of the delay */
    uint32_t bytes, line_bytes;
    uint8_t data[]; /* struct virtio_net_hdr, then the frame */
};

struct port {
    int fd;
    int site;
    uint64_t up_free_ns, down_free_ns; /* when its link has sent all that it has */
    uint64_t frames;                   /* that came from it */
};

struct address {
    uint8_t mac[ETH_ALEN];
    uint32_t port;
};

struct counts {
    uint64_t forwarded, lost, reordered, dropped, late;
};

struct relay {
    double bits_per_s, loss, reorder;
    uint64_t delay_ns, queue_bytes, seed;
    struct port ports[PORTS_MAX];
    uint32_t n_ports;
    struct address addresses[ADDRESSES_MAX];
    uint32_t n_addresses;
    struct frame **heap;
    size_t n, room;
    uint64_t numbers;
    struct counts counts;
};

static void die(const char *what)
{
    fprintf(stderr, "link_relay: %s: %s\n", what, strerrordesc_np(errno));
    exit(1);
}

/* ---- frames by the time at which they are due ---- */

static bool is_before(const struct frame *a, const struct frame *b)
{
    return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->number < b->number;
}

static void push(struct relay *relay, struct frame *frame)
{
    if (relay->n == relay->room) {
        relay->room = relay->room == 0 ? 1024 : 2 * relay->room;
        relay->heap = reallocarray(relay->heap, relay->room, sizeof(struct frame *));
        if (relay->heap == NULL)
            die("reallocarray");
    }
    size_t at = relay->n++;
    for (; at > 0 && is_before(frame, relay->heap[(at - 1) / 2]); at = (at - 1) / 2)
        relay->heap[at] = relay->heap[(at - 1) / 2];
    relay->heap[at] = frame;
}

static struct frame *pop(struct relay *relay)
{
    struct frame *first = relay->heap[0], *last = relay->heap[--relay->n];
    size_t at = 0;

    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= relay->n)
            break;
        if (child + 1 < relay->n && is_before(relay->heap[child + 1], relay->heap[child]))
            child++;
        if (!is_before(relay->heap[child], last))
            break;
        relay->heap[at] = relay->heap[child];
        at = child;
    }
    relay->heap[at] = last;
    return first;
}

/* ---- links ---- */

static uint64_t line_ns(const struct relay *relay, uint64_t bytes)
{
    return relay->bits_per_s > 0 ? (uint64_t)((double)bytes * 8e9 / relay->bits_per_s) : 0;
}

/** Is the queue before a link full? @param free_ns  when the link has sent all of it */
static bool is_full(const struct relay *relay, uint64_t free_ns, uint64_t now)
{
    return relay->queue_bytes > 0 && free_ns > now &&
           free_ns - now > line_ns(relay, relay->queue_bytes);
}

/** A number in [0, 1) that belongs to a frame of a port. */
static double choose(const struct relay *relay, uint32_t port, uint64_t frame, uint32_t what)
{
    uint64_t x = relay->seed + 0x9e3779b97f4a7c15u * (frame * 2 + what) + ((uint64_t)port << 56);

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (double)((x ^ x >> 31) >> 11) * 0x1p-53;
}

/** Bytes of all frames that a device makes of this one. */
static uint32_t bytes_on_line(const uint8_t *data, uint32_t bytes)
{
    struct virtio_net_hdr head;

    memcpy(&head, data, sizeof(head));
    bytes -= (uint32_t)sizeof(head);
    if (head.gso_type == VIRTIO_NET_HDR_GSO_NONE || head.gso_size == 0 || head.hdr_len >= bytes)
        return bytes;
    uint32_t cuts = (bytes - head.hdr_len - 1) / head.gso_size;
    return bytes + cuts * head.hdr_len;
}

static void learn(struct relay *relay, const uint8_t *mac, uint32_t port)
{
    uint32_t at = 0;

    while (at < relay->n_addresses && memcmp(relay->addresses[at].mac, mac, ETH_ALEN) != 0)
        at++;
    if (at == ADDRESSES_MAX)
        return;
    memcpy(relay->addresses[at].mac, mac, ETH_ALEN);
    relay->addresses[at].port = port;
    relay->n_addresses += at == relay->n_addresses;
}

/** @return n_ports: all others */
static uint32_t find(const struct relay *relay, const uint8_t *mac)
{
    for (uint32_t i = 0; i < relay->n_addresses; i++)
        if (memcmp(relay->addresses[i].mac, mac, ETH_ALEN) == 0)
            return relay->addresses[i].port;
    return relay->n_ports;
}

static struct frame *make_frame(const uint8_t *data, uint32_t bytes)
{
    struct frame *frame = malloc(sizeof(*frame) + bytes);
    if (frame == NULL)
        die("malloc");
    frame->bytes = bytes;
    memcpy(frame->data, data, bytes);
    frame->line_bytes = bytes_on_line(data, bytes);
    return frame;
}

static void put_out(struct relay *relay, struct frame *frame, uint64_t now)
{
    relay->counts.late += now - frame->due_ns > LATE_NS;
    if (send(relay->ports[frame->to].fd, frame->data, frame->bytes, MSG_DONTWAIT) >= 0)
        relay->counts.forwarded++;
    else if (errno == ENOBUFS || errno == EAGAIN || errno == ENETDOWN)
        relay->counts.dropped++;
    else
        die("send");
    free(frame);
}

/** A frame leaves its host's link, and goes the long way. */
static void enter(struct relay *relay, uint32_t from, uint32_t to, const uint8_t *data,
                  uint32_t bytes, bool late)
{
    struct frame *frame = make_frame(data, bytes);

    frame->to = to;
    frame->number = relay->numbers++;
    frame->due_ns = relay->ports[from].up_free_ns + relay->delay_ns;
    frame->due_ns += late ? relay->delay_ns / REORDER_PARTS : 0;
    frame->arrived = false;
    push(relay, frame);
}

/** Within a site there is nothing on the way. */
static void pass(struct relay *relay, uint32_t to, const uint8_t *data, uint32_t bytes,
                 uint64_t now)
{
    struct frame *frame = make_frame(data, bytes);

    frame->to = to;
    frame->due_ns = now;
    put_out(relay, frame, now);
}

/** Send it to one port, or to all others, of other sites, unless it is dropped or lost. */
static void take_far(struct relay *relay, uint32_t from, uint32_t to, const uint8_t *data,
                     uint32_t bytes, uint64_t now)
{
    struct port *port = &relay->ports[from];
    uint64_t number = port->frames++;

    if (is_full(relay, port->up_free_ns, now)) {
        relay->counts.dropped++;
        return;
    }
    uint64_t begin = port->up_free_ns > now ? port->up_free_ns : now;
    port->up_free_ns = begin + line_ns(relay, bytes_on_line(data, bytes));
    if (choose(relay, from, number, 0) < relay->loss) {
        relay->counts.lost++;
        return;
    }
    bool late = choose(relay, from, number, 1) < relay->reorder;
    relay->counts.reordered += late;
    for (uint32_t i = 0; i < relay->n_ports; i++)
        if (relay->ports[i].site != port->site && (to == i || to == relay->n_ports))
            enter(relay, from, i, data, bytes, late);
}

/** A host has sent this. */
static void take(struct relay *relay, uint32_t from, const uint8_t *data, uint32_t bytes,
                 uint64_t now)
{
    const uint8_t *head = data + sizeof(struct virtio_net_hdr);

    if (bytes < sizeof(struct virtio_net_hdr) + sizeof(struct ether_header))
        return;
    learn(relay, head + ETH_ALEN, from);
    uint32_t to = find(relay, head);
    bool all = to == relay->n_ports;
    for (uint32_t i = 0; i < relay->n_ports; i++)
        if (i != from && (all || to == i) && relay->ports[i].site == relay->ports[from].site)
            pass(relay, i, data, bytes, now);
    if (all || relay->ports[to].site != relay->ports[from].site)
        take_far(relay, from, to, data, bytes, now);
}

static void receive(struct relay *relay, uint32_t from)
{
    static uint8_t data[FRAME_MAX];

    for (int i = 0; i < TURN_FRAMES; i++) {
        ssize_t n = recv(relay->ports[from].fd, data, sizeof(data), MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR || errno == ENETDOWN))
            return;
        if (n < 0)
            die("recv");
        take(relay, from, data, (uint32_t)n, wring_now_ns());
    }
}

/** It has come to the link of the host that it is for: it goes through at once, or waits. */
static void arrive(struct relay *relay, struct frame *frame, uint64_t now)
{
    struct port *port = &relay->ports[frame->to];
    uint64_t at = frame->due_ns;

    if (is_full(relay, port->down_free_ns, at)) {
        relay->counts.dropped++;
        free(frame);
        return;
    }
    uint64_t begin = port->down_free_ns > at ? port->down_free_ns : at;
    port->down_free_ns = begin + line_ns(relay, frame->line_bytes);
    frame->due_ns = begin;
    frame->arrived = true;
    if (begin <= now)
        put_out(relay, frame, now);
    else
        push(relay, frame);
}

static void deliver(struct relay *relay)
{
    uint64_t now = wring_now_ns();

    while (relay->n > 0 && relay->heap[0]->due_ns <= now) {
        struct frame *frame = pop(relay);
        if (frame->arrived)
            put_out(relay, frame, now);
        else
            arrive(relay, frame, now);
    }
}

/* ---- the program ---- */

static int open_port(const char *name)
{
    int on = 1, bytes = SOCKET_BYTES;
    struct sockaddr_ll address = {
        .sll_family = AF_PACKET,
        .sll_protocol = htons(ETH_P_ALL),
        .sll_ifindex = (int)if_nametoindex(name),
    };
    if (address.sll_ifindex == 0)
        die(name);
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0); /* deaf until it is bound */
    if (fd < 0 || setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof(on)) != 0 ||
        setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof(on)) != 0 ||
        setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof(on)) != 0)
        die("packet socket");
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes)) != 0)
        die("buffers of a packet socket");
    if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) != 0)
        die(name);
    return fd;
}

static void add_port(struct relay *relay, char *word)
{
    char *at = strchr(word, '@');

    if (relay->n_ports == PORTS_MAX) {
        fprintf(stderr, "link_relay: more than %d ports\n", PORTS_MAX);
        exit(2);
    }
    struct port *port = &relay->ports[relay->n_ports];
    port->site = at != NULL ? atoi(at + 1) : PORTS_MAX + (int)relay->n_ports;
    if (at != NULL)
        *at = '\0';
    port->fd = open_port(word);
    relay->n_ports++;
}

/** @return a share of frames, at least 0 and less than 1 */
static double read_number(const char *option, const char *text, double most)
{
    char *end;
    double value = strtod(text, &end);

    if (*text != '\0' && *end == '\0' && value >= 0 && value <= most)
        return value;
    fprintf(stderr, "link_relay: -%s takes a number of 0 to %g, not '%s'\n", option, most, text);
    exit(2);
}

static void read_arguments(struct relay *relay, int argc, char **argv)
{
    int option;

    relay->seed = 1;
    while ((option = getopt(argc, argv, "r:d:q:l:o:s:")) != -1) {
        const char name[2] = {(char)option, '\0'};
        if (option == '?')
            exit(2);
        double value = read_number(name, optarg, option == 'l' || option == 'o' ? 1 : 1e15);
        if (option == 'r')
            relay->bits_per_s = value;
        else if (option == 'd')
            relay->delay_ns = (uint64_t)(value * 1e3);
        else if (option == 'q')
            relay->queue_bytes = (uint64_t)value;
        else if (option == 'l')
            relay->loss = value;
        else if (option == 'o')
            relay->reorder = value;
        else
            relay->seed = (uint64_t)value;
    }
    for (; optind < argc; optind++)
        add_port(relay, argv[optind]);
    if (relay->n_ports < 2) {
        fprintf(stderr, "link_relay: needs two ports\n");
        exit(2);
    }
}

/** @return false: the input has ended */
static bool answer(const struct relay *relay)
{
    char line[64];
    const struct counts *counts = &relay->counts;
    ssize_t n = read(STDIN_FILENO, line, sizeof(line));

    if (n <= 0)
        return false;
    printf("%llu %llu %llu %llu %llu\n", (unsigned long long)counts->forwarded,
           (unsigned long long)counts->lost, (unsigned long long)counts->reordered,
           (unsigned long long)counts->dropped, (unsigned long long)counts->late);
    fflush(stdout);
    return true;
}

static void run(struct relay *relay)
{
    struct pollfd fds[PORTS_MAX + 1] = {{.fd = STDIN_FILENO, .events = POLLIN}};

    for (uint32_t i = 0; i < relay->n_ports; i++)
        fds[i + 1] = (struct pollfd){.fd = relay->ports[i].fd, .events = POLLIN};
    for (;;) {
        uint64_t now = wring_now_ns();
        uint64_t next = relay->n > 0 ? relay->heap[0]->due_ns : now + 1000000000u;
        uint64_t wait = next > now ? next - now : 0;
        struct timespec timeout = {(time_t)(wait / 1000000000u), (long)(wait % 1000000000u)};

        if (ppoll(fds, relay->n_ports + 1, &timeout, NULL) < 0 && errno != EINTR)
            die("ppoll");
        for (uint32_t i = 0; i < relay->n_ports; i++)
            if (fds[i + 1].revents != 0)
                receive(relay, i);
        deliver(relay);
        if (fds[0].revents != 0 && !answer(relay))
            return;
    }
}

int main(int argc, char **argv)
{
    static struct relay relay;

    read_arguments(&relay, argc, argv);
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
    if (setpriority(PRIO_PROCESS, 0, PRIORITY) != 0) /* LATE shows what that costs */
        fprintf(stderr, "link_relay: runs without priority: %s\n", strerrordesc_np(errno));
    printf("ready\n");
    fflush(stdout);
    run(&relay);
    return 0;
}
