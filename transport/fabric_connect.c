/* SPDX-License-Identifier: Apache-2.0 */
/* Which device reaches which peer: all ranks make the same choice from all descriptions. */
#include "transport/fabric_connect.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/host.h"
#include "base/log.h"
#include "base/parse.h"
#include "transport/control.h"
#include "transport/control_tree.h"
#include "transport/fabric.h"

#define WRING_MODULE "fabric"

/** The machine, however many hosts it counts as, and the cores that we may run on there. */
static void describe_cores(struct wring_writer *out)
{
    char machine[WRING_CONFIG_TEXT];
    cpu_set_t cores;

    if (!wring_host_identity(machine, sizeof(machine)))
        machine[0] = '\0';
    machine[strcspn(machine, "/")] = '\0';
    CPU_ZERO(&cores);
    if (sched_getaffinity(0, sizeof(cores), &cores) != 0)
        CPU_ZERO(&cores); /* more cores than fit: then there are enough */
    wring_write_sized(out, machine, strlen(machine));
    wring_write_sized(out, &cores, sizeof(cores));
}

static bool parse_cores(struct wring_reader *reader, struct wring_description *out)
{
    size_t bytes;
    wring_read_text(reader, out->machine, sizeof(out->machine));
    const void *cores = wring_read_sized(reader, &bytes);
    if (cores == NULL || bytes != sizeof(out->cores))
        return false;
    memcpy(&out->cores, cores, bytes);
    return true;
}

void wring_fabric_describe(const struct wring_fabric *fabric, struct wring_writer *out)
{
    char host[WRING_CONFIG_TEXT];

    if (!wring_host_of_rank(fabric->config->node, fabric->rank, host, sizeof(host)))
        wring_warn(fabric->log,
                   "this host cannot be told from others, and counts as one of its own: %s; "
                   "WRING_NODE names it",
                   WRING_REFUSED("open of /proc/sys/kernel/random/boot_id"));
    wring_write_sized(out, host, strlen(host));
    describe_cores(out);
    wring_write_u32(out, fabric->n_devices);
    for (uint32_t i = 0; i < fabric->n_devices; i++) {
        const struct wring_device *device = &fabric->devices[i];
        wring_write_sized(out, device->name, strlen(device->name));
        wring_write_sized(out, device->address, device->address_bytes);
    }
    wring_write_sized(out, fabric->lacks, strlen(fabric->lacks));
    struct wring_control_tree_endpoint endpoint = {NULL, 0};
    if (fabric->tree != NULL)
        endpoint = wring_control_tree_endpoint(fabric->tree);
    wring_write_sized(out, endpoint.address, endpoint.bytes);
}

bool wring_description_read(const struct wring_blobs *blobs, uint32_t rank,
                            struct wring_description *out)
{
    struct wring_reader reader = {blobs->storage + blobs->offsets[rank],
                                  blobs->offsets[rank + 1] - blobs->offsets[rank], false};
    wring_read_text(&reader, out->host, sizeof(out->host));
    if (!parse_cores(&reader, out))
        return false;
    out->n_devices = wring_read_u32(&reader);
    if (out->n_devices > WRING_DEVICES_MAX)
        return false;
    for (uint32_t i = 0; i < out->n_devices; i++) {
        wring_read_text(&reader, out->devices[i].name, sizeof(out->devices[i].name));
        out->devices[i].address = wring_read_sized(&reader, &out->devices[i].address_bytes);
    }
    wring_read_text(&reader, out->lacks, sizeof(out->lacks));
    out->tree.address = wring_read_sized(&reader, &out->tree.bytes);
    return !reader.failed && reader.bytes == 0;
}

/** @return which of its devices has that name, or -1 */
static int description_find(const struct wring_description *description, const char *name)
{
    for (uint32_t i = 0; i < description->n_devices; i++)
        if (strcmp(description->devices[i].name, name) == 0)
            return (int)i;
    return -1;
}

/* ---- connecting ---- */

#define WINDOW_MIN_BYTES (512u << 10)

static int find_own_device(const struct wring_fabric *fabric, const char *name)
{
    for (uint32_t i = 0; i < fabric->n_devices; i++)
        if (strcmp(fabric->devices[i].name, name) == 0)
            return (int)i;
    return -1;
}

/** The devices that ranks have in common. */
struct survey {
    struct wring_description *all;   /* [size] */
    bool for_all[WRING_DEVICES_MAX]; /* of ours: every rank has it, and it reaches every host */
    uint32_t lacking;                /* the first rank that goes without something; size: none */
    char apart[2 * WRING_TEXT_MAX];  /* ranks that a device does not connect, and why; or "" */
};

/** Does a device of ours reach from one rank to another? Both have it. @param why out, where not */
static bool can_device_reach(const struct wring_fabric *fabric, uint32_t device,
                             const struct wring_description *one,
                             const struct wring_description *other, char *why, size_t bytes)
{
    const struct wring_device *ours = &fabric->devices[device];
    int a = description_find(one, ours->name), b = description_find(other, ours->name);
    enum wring_status status = ours->provider->ops->reaches(
        ours->provider, one->devices[a].address, one->devices[a].address_bytes,
        other->devices[b].address, other->devices[b].address_bytes, why, bytes);
    if (status == WRING_ERR_FRAME)
        snprintf(why, bytes, "a malformed address");
    return status == WRING_OK;
}

static bool all_have_device(const struct wring_fabric *fabric, const struct survey *survey,
                            uint32_t device)
{
    for (uint32_t rank = 0; rank < fabric->size; rank++)
        if (description_find(&survey->all[rank], fabric->devices[device].name) < 0)
            return false;
    return true;
}

/** Between all ranks of different hosts. All have it. The first two that it does not are told. */
static bool check_reaches_all(const struct wring_fabric *fabric, struct survey *survey,
                              uint32_t device)
{
    char why[WRING_TEXT_MAX] = "";
    for (uint32_t i = 0; i < fabric->size; i++)
        for (uint32_t j = i + 1; j < fabric->size; j++) {
            const struct wring_description *one = &survey->all[i], *other = &survey->all[j];
            if (strcmp(one->host, other->host) == 0 ||
                can_device_reach(fabric, device, one, other, why, sizeof(why)))
                continue;
            if (survey->apart[0] == '\0')
                snprintf(survey->apart, sizeof(survey->apart),
                         "%s does not connect ranks %" PRIu32 " and %" PRIu32 ": %s",
                         fabric->devices[device].name, i, j, why);
            return false;
        }
    return true;
}

/** @param out  on success survey->all is the caller's to free */
static enum wring_status read_survey(const struct wring_fabric *fabric,
                                     const struct wring_blobs *blobs, struct survey *out)
{
    *out = (struct survey){.lacking = fabric->size};
    out->all = calloc(fabric->size, sizeof(out->all[0]));
    if (out->all == NULL)
        return WRING_ERR_NO_MEMORY;
    for (uint32_t rank = 0; rank < fabric->size; rank++) {
        if (!wring_description_read(blobs, rank, &out->all[rank])) {
            wring_error(fabric->log, "rank %" PRIu32 " described itself in malformed bytes", rank);
            free(out->all);
            return WRING_ERR_FRAME;
        }
        if (out->all[rank].lacks[0] != '\0' && out->lacking == fabric->size)
            out->lacking = rank;
    }
    for (uint32_t i = 0; i < fabric->n_devices; i++)
        out->for_all[i] = !fabric->devices[i].caps.same_host_only &&
                          all_have_device(fabric, out, i) && check_reaches_all(fabric, out, i);
    return WRING_OK;
}

/**
 * The first device of the lower rank that the higher one has and that reaches: both agree. One
 * device leads all ranks to other hosts, where there is one that serves every rank.
 * @param why out, [bytes], where there is none: what is in the way, or ""
 */
static int common_device(const struct wring_fabric *fabric, const struct survey *survey,
                         const struct wring_description *lower,
                         const struct wring_description *higher, char *why, size_t bytes)
{
    int second_best = -1;
    why[0] = '\0';
    for (uint32_t i = 0; i < lower->n_devices; i++) {
        const char *name = lower->devices[i].name;
        int own = find_own_device(fabric, name);
        if (own < 0 || description_find(higher, name) < 0)
            continue;
        bool same_host_only = fabric->devices[own].caps.same_host_only;
        if (same_host_only && strcmp(lower->host, higher->host) != 0)
            continue;
        if (!can_device_reach(fabric, (uint32_t)own, lower, higher, why, bytes))
            continue;
        if (same_host_only || survey->for_all[own])
            return own;
        second_best = second_best < 0 ? own : second_best;
    }
    return second_best;
}

/** Bytes of puts that may be under way to a peer: at first, and at most if that is too little. */
static struct wring_put_window make_window(const struct wring_fabric *fabric,
                                           const struct wring_provider_caps *caps)
{
    size_t chunk_bytes = fabric->config->chunk_bytes;
    size_t limit = 2 * chunk_bytes > WINDOW_MIN_BYTES ? 2 * chunk_bytes : WINDOW_MIN_BYTES;
    size_t most = caps->put_acked ? 8 * limit : limit;
    return (struct wring_put_window){.limit = limit, .most = most};
}

void wring_fabric_renew_windows(struct wring_fabric *fabric)
{
    for (uint32_t i = 0; i < fabric->size; i++) {
        struct wring_peer *peer = &fabric->peers[i];
        if (i == fabric->rank)
            continue;
        const struct wring_put_window window =
            make_window(fabric, &fabric->devices[peer->device].caps);
        peer->window.limit = window.limit;
        peer->window.most = window.most;
    }
}

/** The peer has come by another device of ours than we should have dialled. */
static void fabric_take_device(struct wring_fabric *fabric, struct wring_peer *peer,
                               uint32_t device)
{
    peer->device = device;
    peer->put_copies = fabric->devices[device].caps.put_copies;
    peer->window = make_window(fabric, &fabric->devices[device].caps);
}

static void set_peer_address(const struct wring_fabric *fabric, struct wring_peer *peer,
                             const struct wring_description *other)
{
    int theirs = description_find(other, fabric->devices[peer->device].name);
    peer->address = other->devices[theirs].address;
    peer->address_bytes = other->devices[theirs].address_bytes;
}

/** @return index of ours, or -1 */
static int next_device(const struct wring_fabric *fabric, const char *after,
                       const struct wring_description *lower,
                       const struct wring_description *higher)
{
    char why[WRING_TEXT_MAX];
    for (uint32_t i = (uint32_t)description_find(lower, after) + 1; i < lower->n_devices; i++) {
        int own = find_own_device(fabric, lower->devices[i].name);
        if (own >= 0 && !fabric->devices[own].caps.same_host_only &&
            description_find(higher, lower->devices[i].name) >= 0 &&
            can_device_reach(fabric, (uint32_t)own, lower, higher, why, sizeof(why)))
            return own;
    }
    return -1;
}

/**
 * The next device for a peer that the one it has does not reach: the first of the lower rank,
 * behind that one, which the higher has and which leads to other hosts. The peer's device, address
 * and window become those.
 * @return false: there is none, and nothing has changed
 */
static bool fabric_choose_next(struct wring_fabric *fabric, struct wring_peer *peer)
{
    const struct wring_blobs *blobs = &fabric->blobs;
    uint32_t low = peer->rank < fabric->rank ? peer->rank : fabric->rank;
    uint32_t high = peer->rank < fabric->rank ? fabric->rank : peer->rank;
    struct wring_description *both = calloc(2, sizeof(*both));
    int device = -1;

    if (both != NULL && wring_description_read(blobs, low, &both[0]) &&
        wring_description_read(blobs, high, &both[1]))
        device = next_device(fabric, fabric->devices[peer->device].name, &both[0], &both[1]);
    if (device >= 0) {
        fabric_take_device(fabric, peer, (uint32_t)device);
        set_peer_address(fabric, peer, &both[peer->rank == high]);
    }
    free(both);
    return device >= 0;
}

static enum wring_status choose_peer_device(struct wring_fabric *fabric,
                                            const struct survey *survey, struct wring_peer *peer)
{
    char why[WRING_TEXT_MAX];
    uint32_t low = peer->rank < fabric->rank ? peer->rank : fabric->rank;
    uint32_t high = peer->rank < fabric->rank ? fabric->rank : peer->rank;
    const struct wring_description *other = &survey->all[peer->rank];
    int device =
        common_device(fabric, survey, &survey->all[low], &survey->all[high], why, sizeof(why));
    if (device < 0) {
        wring_error(fabric->log,
                    "ranks %" PRIu32 " and %" PRIu32
                    " have no provider in common that reaches from one to the other%s%s; see "
                    "WRING_PROVIDER",
                    low, high, why[0] != '\0' ? ": " : "", why);
        return WRING_ERR_UNSUPPORTED;
    }
    fabric_take_device(fabric, peer, (uint32_t)device);
    set_peer_address(fabric, peer, other);
    return WRING_OK;
}

/** The share of our cores that a rank takes, as far as it can be known: it uses its own alike. */
static double core_share(const struct wring_description *own, const struct wring_description *other)
{
    cpu_set_t both;
    CPU_AND(&both, &own->cores, &other->cores);
    if (strcmp(own->machine, other->machine) != 0 || CPU_COUNT(&both) == 0)
        return 0;
    return (double)CPU_COUNT(&both) / CPU_COUNT(&other->cores);
}

static uint32_t first_rank_on_host(const struct survey *survey, uint32_t rank)
{
    uint32_t first = 0;
    while (strcmp(survey->all[first].host, survey->all[rank].host) != 0)
        first++;
    return first;
}

/** It runs on cores of this machine, and on none of ours. */
static bool is_beside(const struct wring_description *own, const struct wring_description *other)
{
    cpu_set_t both;
    CPU_AND(&both, &own->cores, &other->cores);
    return strcmp(own->machine, other->machine) == 0 && CPU_COUNT(&both) == 0 &&
           CPU_COUNT(&own->cores) > 0 && CPU_COUNT(&other->cores) > 0;
}

static bool is_device_used(const struct wring_fabric *fabric, uint32_t device)
{
    for (uint32_t i = 0; i < fabric->size; i++)
        if (i != fabric->rank && fabric->peers[i].device == device)
            return true;
    return false;
}

/** Close optional devices that reach no peer, so that no memory is registered with them. */
static void close_unused_devices(struct wring_fabric *fabric)
{
    for (uint32_t i = fabric->n_devices; i-- > 0;) {
        if (!fabric->devices[i].optional || is_device_used(fabric, i))
            continue;
        fabric->devices[i].provider->ops->close(fabric->devices[i].provider);
        fabric->n_devices--;
        for (uint32_t d = i; d < fabric->n_devices; d++)
            fabric->devices[d] = fabric->devices[d + 1];
        for (uint32_t p = 0; p < fabric->size; p++)
            fabric->peers[p].device -= fabric->peers[p].device > i;
    }
}

/** Rank 0 logs for all which device leads to other hosts, and why another one does not. */
static void log_device_choice(const struct wring_fabric *fabric, const struct survey *survey)
{
    const char *name = NULL;
    for (uint32_t i = 1; fabric->rank == 0 && i < fabric->size && name == NULL; i++)
        if (!fabric->devices[fabric->peers[i].device].caps.same_host_only)
            name = fabric->devices[fabric->peers[i].device].name;
    if (name != NULL && survey->lacking < fabric->size)
        wring_info(fabric->log, "%s leads to other hosts: rank %" PRIu32 " goes without %s", name,
                   survey->lacking, survey->all[survey->lacking].lacks);
    else if (name != NULL && survey->apart[0] != '\0')
        wring_info(fabric->log, "%s leads to other hosts: %s", name, survey->apart);
    else if (name != NULL)
        wring_info(fabric->log, "%s leads to other hosts", name);
}

enum wring_status wring_fabric_choose(struct wring_fabric *fabric, const struct wring_blobs *blobs)
{
    struct survey survey;
    enum wring_status status = read_survey(fabric, blobs, &survey);
    if (status != WRING_OK)
        return status;
    const struct wring_description *own = &survey.all[fabric->rank];
    double load = 0;
    for (uint32_t i = 0; i < fabric->size && status == WRING_OK; i++) {
        load += core_share(own, &survey.all[i]);
        fabric->peers[i].beside = is_beside(own, &survey.all[i]);
        fabric->peers[i].node = first_rank_on_host(&survey, i);
        if (i != fabric->rank)
            status = choose_peer_device(fabric, &survey, &fabric->peers[i]);
    }
    if (status == WRING_OK) {
        fabric->crowded = load > CPU_COUNT(&own->cores);
        log_device_choice(fabric, &survey);
        close_unused_devices(fabric);
    }
    free(survey.all);
    return status;
}

/* ---- connect ---- */

#define REDIAL_NS (20 * WRING_NS_PER_MS)
#define GRACE_NS (200 * WRING_NS_PER_MS) /* for the tree to say that nobody is there any more */

/** Disconnect; events of it that came in the same poll and are yet to be handled lose their conn.
 */
static void disconnect_conn(struct wring_fabric *fabric, struct wring_conn *conn)
{
    if (conn == NULL)
        return;
    for (size_t i = 0; i < fabric->n_events; i++)
        if (fabric->events[i].conn == conn)
            fabric->events[i].conn = NULL;
    conn->provider->ops->disconnect(conn);
}

/** Nothing but the connection that is used is left. */
static void end_dial(struct wring_peer *peer)
{
    if (peer->dial == NULL)
        return;
    disconnect_conn(peer->fabric, peer->dial->spare);
    free(peer->dial);
    peer->dial = NULL;
    peer->owes_welcome = false;
}

static void drop_connection(struct wring_peer *peer, enum wring_peer_state state)
{
    end_dial(peer);
    disconnect_conn(peer->fabric, peer->conn);
    peer->conn = NULL;
    peer->window.bytes = 0;
    peer->state = state;
}

void wring_peer_drop(struct wring_peer *peer)
{
    drop_connection(peer, WRING_PEER_GONE);
}

void wring_connect_cancel(struct wring_peer *peer)
{
    if (peer->state == WRING_PEER_CONNECTING && !peer->dial->taken)
        drop_connection(peer, WRING_PEER_NONE);
}

void wring_connect_failed(struct wring_fabric *fabric, enum wring_status status,
                          const struct wring_peer *peer, const char *format, ...)
{
    char text[3 * WRING_TEXT_MAX];
    va_list args;
    va_start(args, format);
    wring_number_vprint(text, sizeof(text), format, args);
    va_end(args);
    if (fabric->state != WRING_FABRIC_JOINING) {
        wring_fabric_fail(fabric, status, (int32_t)peer->rank, "%s", text);
        return;
    }
    if (fabric->mishap.status != WRING_OK)
        return;
    fabric->mishap.status = status;
    memcpy(fabric->mishap.text, text, sizeof(text));
}

/* ---- the side that accepts ---- */

static void say_welcome(struct wring_fabric *fabric, struct wring_peer *peer)
{
    const struct wring_control welcome = {.kind = WRING_CONTROL_WELCOME};
    peer->owes_welcome = wring_control_say(peer->conn, &welcome) == WRING_ERR_AGAIN;
    if (peer->owes_welcome)
        fabric->owes_welcomes = fabric->has_chores = true;
}

void wring_connect_welcome(struct wring_fabric *fabric)
{
    for (uint32_t i = 0; i < fabric->size; i++)
        if (fabric->peers[i].owes_welcome)
            say_welcome(fabric, &fabric->peers[i]);
}

static bool begin_dial(struct wring_peer *peer)
{
    if (peer->dial == NULL)
        peer->dial = calloc(1, sizeof(*peer->dial));
    if (peer->dial == NULL)
        return false;
    if (peer->state == WRING_PEER_NONE)
        peer->dial->began_ns = wring_now_ns();
    peer->state = WRING_PEER_CONNECTING;
    return true;
}

/** Use what the peer has dialled. */
static void use_dialled_conn(struct wring_fabric *fabric, struct wring_peer *peer,
                             struct wring_conn *conn, uint32_t device)
{
    if (!begin_dial(peer)) {
        disconnect_conn(fabric, conn);
        return;
    }
    disconnect_conn(fabric, peer->conn); /* both have dialled: ours goes */
    peer->conn = conn;
    peer->dial->taken = true;
    peer->dial->redial_ns = 0;
    if (peer->device != device)
        fabric_take_device(fabric, peer, device);
    say_welcome(fabric, peer);
}

/** By the device that both chose, or by one that is taken where that does not reach. */
static bool may_come_by(const struct wring_fabric *fabric, const struct wring_peer *peer,
                        uint32_t device)
{
    return peer->device == device || !fabric->devices[device].caps.same_host_only;
}

/** @return NULL: it is none of this job's */
static struct wring_peer *find_caller(struct wring_fabric *fabric, const struct wring_event *event)
{
    struct wring_reader hello = {event->data, event->bytes, false};
    uint32_t rank = wring_read_u32(&hello);
    const void *job = wring_read(&hello, sizeof(fabric->job));

    if (hello.failed || memcmp(job, fabric->job, sizeof(fabric->job)) != 0 ||
        rank >= fabric->size || rank == fabric->rank)
        return NULL;
    return &fabric->peers[rank];
}

static void on_accepted(struct wring_fabric *fabric, uint32_t device, struct wring_event *event)
{
    struct wring_peer *peer = find_caller(fabric, event);
    if (peer == NULL || peer->state >= WRING_PEER_READY || !may_come_by(fabric, peer, device)) {
        if (peer == NULL || peer->state < WRING_PEER_READY) /* else a dial that came to nothing */
            wring_warn(fabric->log, "refused a connection that is not one of this job's");
        disconnect_conn(fabric, event->conn);
        return;
    }
    event->conn->user = peer;
    bool ours_stays = peer->state == WRING_PEER_CONNECTING && !peer->dial->taken &&
                      peer->conn != NULL && fabric->rank > peer->rank;
    if (!ours_stays) {
        use_dialled_conn(fabric, peer, event->conn, device);
        return;
    }
    disconnect_conn(peer->fabric, peer->dial->spare);
    peer->dial->spare = event->conn;
    peer->dial->spare_device = device;
}

/* ---- the side that dials ---- */

/** @return WRING_OK: it is under way */
static enum wring_status dial_peer(struct wring_fabric *fabric, struct wring_peer *peer)
{
    struct wring_provider *provider = fabric->devices[peer->device].provider;
    uint8_t hello[sizeof(uint32_t) + sizeof(fabric->job)];

    wring_put_u32(hello, fabric->rank);
    memcpy(hello + sizeof(uint32_t), fabric->job, sizeof(fabric->job));
    enum wring_status status = provider->ops->connect(provider, peer->address, peer->address_bytes,
                                                      hello, sizeof(hello), &peer->conn);
    if (status == WRING_OK)
        peer->conn->user = peer;
    return status;
}

/** Our dial came to nothing, and there is no other way. */
static void give_up_dial(struct wring_fabric *fabric, struct wring_peer *peer,
                         enum wring_status status, const char *why, const char *remedy)
{
    const struct wring_dial *dial = peer->dial;
    bool told =
        status == WRING_ERR_AUTH || status == WRING_ERR_SYSTEM || status == WRING_ERR_NO_MEMORY;
    if (!peer->left)
        wring_connect_failed(fabric, told ? status : WRING_ERR_PEER, peer,
                             "no connection to rank %" PRIu32 " over %s: %s%s%s%s", peer->rank,
                             fabric->devices[peer->device].name, why,
                             dial->second ? "; nor over " : "", dial->second ? dial->first : "",
                             remedy);
    wring_peer_drop(peer);
}

/** Is another dial worth a try? Not where the peer was there, and refused us. */
static bool may_try_again(enum wring_status status)
{
    return status == WRING_ERR_ADDRESS || status == WRING_ERR_PEER || status == WRING_ERR_TIMEOUT ||
           status == WRING_ERR_DEVICE || status == WRING_ERR_UNSUPPORTED;
}

/**
 * A peer that is busy, or whose application does not call, answers late; one that has too many at
 * its door closes, and one that has left or died is nowhere: of that the tree tells.
 * @return false: this device has been tried for long enough
 */
static bool redial_later(struct wring_fabric *fabric, struct wring_peer *peer,
                         enum wring_status status)
{
    bool was_there = status == WRING_ERR_TIMEOUT || status == WRING_ERR_PEER;
    uint64_t patience_ns = was_there ? fabric->config->peer_timeout_ns : GRACE_NS;
    uint64_t now_ns = wring_now_ns();

    if (now_ns - peer->dial->began_ns >= patience_ns)
        return false;
    peer->dial->redial_ns = now_ns + REDIAL_NS;
    fabric->owes_dials = true;
    return true;
}

/** Once, the next device that both have. @return false: there is none */
static bool try_next_device(struct wring_fabric *fabric, struct wring_peer *peer, const char *why)
{
    struct wring_dial *now = peer->dial;
    const struct wring_device *from = &fabric->devices[peer->device];

    if (now->second || !fabric_choose_next(fabric, peer))
        return false;
    now->second = true;
    now->began_ns = wring_now_ns();
    snprintf(now->first, sizeof(now->first), "%s: %s", from->name, why);
    uint32_t low = peer->rank < fabric->rank ? peer->rank : fabric->rank;
    uint32_t high = peer->rank < fabric->rank ? fabric->rank : peer->rank;
    wring_log_line(
        fabric->log, fabric->told_apart ? WRING_LOG_INFO : WRING_LOG_WARN, WRING_MODULE,
        "ranks %" PRIu32 " and %" PRIu32 " %s %s: %s; they use %s, which is slower%s", low, high,
        from->caps.same_host_only ? "are on one host and cannot use" : "cannot be connected over",
        from->name, why, fabric->devices[peer->device].name,
        from->caps.same_host_only
            ? ". Run them as one user in one namespace, or give them different WRING_NODE"
            : "");
    fabric->told_apart = true;
    return true;
}

/** Our dial ended. @param why  of the event that said so: void after the next call below */
static void on_undialled(struct wring_fabric *fabric, struct wring_peer *peer,
                         enum wring_status status, const char *why)
{
    struct wring_conn *spare = peer->dial->spare;
    uint32_t spare_device = peer->dial->spare_device;
    const char *remedy = "";

    peer->dial->spare = NULL;
    if (spare != NULL) {
        use_dialled_conn(fabric, peer, spare, spare_device);
        return;
    }
    if (peer->left || fabric->state >= WRING_FABRIC_FAILING) {
        wring_peer_drop(peer);
        return;
    }
    if (may_try_again(status) && redial_later(fabric, peer, status))
        return;
    if (may_try_again(status) && !peer->dial->second) {
        bool near_only = fabric->devices[peer->device].caps.same_host_only;
        if (try_next_device(fabric, peer, why)) {
            status = dial_peer(fabric, peer);
            if (status == WRING_OK)
                return;
            why = wring_status_text(status);
        } else if (near_only) {
            remedy = "; there is no other provider that both have: see WRING_PROVIDER";
        }
    }
    give_up_dial(fabric, peer, status, why, remedy);
}

enum wring_status wring_connect_dial(struct wring_fabric *fabric, struct wring_peer *peer)
{
    if (peer->state == WRING_PEER_CONNECTING)
        return WRING_ERR_AGAIN;
    if (peer->state == WRING_PEER_NONE && peer->left)
        peer->state = WRING_PEER_GONE;
    if (peer->state == WRING_PEER_GONE || fabric->state >= WRING_FABRIC_FAILING)
        return WRING_ERR_CLOSED;
    if (!begin_dial(peer))
        return WRING_ERR_NO_MEMORY;
    enum wring_status status = dial_peer(fabric, peer);
    if (status != WRING_OK)
        on_undialled(fabric, peer, status, wring_status_text(status));
    return peer->state == WRING_PEER_GONE ? WRING_ERR_CLOSED : WRING_ERR_AGAIN;
}

enum wring_status wring_fabric_reach(struct wring_fabric *fabric, struct wring_peer *peer)
{
    return peer->state == WRING_PEER_READY ? WRING_OK : wring_connect_dial(fabric, peer);
}

enum wring_status wring_control_deliver(struct wring_fabric *fabric, struct wring_peer *peer,
                                        const struct wring_control *control)
{
    return peer->state == WRING_PEER_READY ? wring_control_send(peer, control)
                                           : wring_connect_dial(fabric, peer);
}

void wring_connect_redial(struct wring_fabric *fabric)
{
    fabric->owes_dials = false;
    for (uint32_t i = 0; i < fabric->size; i++) {
        struct wring_peer *peer = &fabric->peers[i];
        if (peer->dial == NULL || peer->dial->redial_ns == 0)
            continue;
        if (fabric->tick_ns < peer->dial->redial_ns && !peer->left) {
            fabric->owes_dials = true;
            continue;
        }
        peer->dial->redial_ns = 0;
        enum wring_status status = peer->left ? WRING_ERR_PEER : dial_peer(fabric, peer);
        if (status != WRING_OK)
            on_undialled(fabric, peer, status, wring_status_text(status));
    }
}

/* ---- both ---- */

static void set_peer_ready(struct wring_fabric *fabric, struct wring_peer *peer)
{
    bool dialled = !peer->dial->taken;

    end_dial(peer);
    peer->state = WRING_PEER_READY;
    peer->heard_ns = peer->sent_ns = fabric->tick_ns;
    atomic_fetch_add_explicit(&fabric->changes, 1, memory_order_release);
    if (dialled) /* the other end waits for a word of ours */
        wring_control_send(peer, &(struct wring_control){.kind = WRING_CONTROL_HEARTBEAT});
    peer->owes_bye = fabric->deaf;
}

static void on_closed(struct wring_fabric *fabric, struct wring_peer *peer,
                      struct wring_event *event)
{
    enum wring_status status = event->status;
    char why[WRING_TEXT_MAX];
    snprintf(why, sizeof(why), "%s", event->text != NULL ? event->text : "no reason given");

    bool spare = event->conn == peer->dial->spare;
    disconnect_conn(fabric, event->conn);
    if (spare) {
        peer->dial->spare = NULL;
        return;
    }
    peer->conn = NULL;
    if (!peer->dial->taken) {
        on_undialled(fabric, peer, status, why);
    } else if (status == WRING_ERR_PEER) {
        drop_connection(peer,
                        WRING_PEER_NONE); /* it has given up before it heard that we take it */
    } else {
        /* to the peer it stands, and only we know what is wrong with it: the tree tells it */
        wring_peer_drop(peer);
        wring_connect_failed(fabric, WRING_ERR_PEER, peer, "rank %" PRIu32 " is lost (%s): %s",
                             peer->rank, fabric->devices[peer->device].name, why);
    }
}

bool wring_connect_event(struct wring_fabric *fabric, uint32_t device, struct wring_event *event)
{
    struct wring_peer *peer = event->conn->user;
    if (peer == NULL && event->kind == WRING_EVENT_ACCEPTED) {
        on_accepted(fabric, device, event);
        return false;
    }
    if (peer == NULL || peer->dial == NULL ||
        (event->conn != peer->conn && event->conn != peer->dial->spare)) {
        disconnect_conn(fabric, event->conn);
        return false;
    }
    if (event->kind == WRING_EVENT_CLOSED) {
        on_closed(fabric, peer, event);
        return false;
    }
    if (event->kind == WRING_EVENT_CONNECTED || event->conn == peer->dial->spare)
        return false;
    set_peer_ready(fabric, peer);
    return true;
}
