/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "transport/providers/fault/fault.h"
#include "transport/providers/fault/inside.h"

#define ITEM_BYTES 48
#define DELAY_MAX_NS 1e10
#define COUNT_MAX 1e18

struct unit {
    const char *name;
    double factor;
};

static const struct unit rates[] = {{"bit", 1}, {"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}, {0}};
static const struct unit times[] = {{"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {0}};
static const struct unit sizes[] = {{"b", 1}, {"kb", 1e3}, {"mb", 1e6}, {"gb", 1e9}, {0}};
static const struct unit none[] = {{"", 1}, {0}};

/** A number from min to max with one of the units. */
static bool parse_number(const char *text, const struct unit *units, double min, double max,
                         double *out)
{
    const char *suffix;
    double number;
    if (!wring_number_parse(text, &number, &suffix))
        return false;
    for (; units->name != NULL; units++)
        if (wring_number_is_unit(suffix, units->name)) {
            *out = number * units->factor;
            return *out >= min && *out <= max;
        }
    return false;
}

static bool parse_time(const char *text, uint64_t *out)
{
    double ns;
    if (!parse_number(text, times, 0, DELAY_MAX_NS, &ns))
        return false;
    *out = (uint64_t)ns;
    return true;
}

static bool parse_chance(const char *text, double *out)
{
    return parse_number(text, none, 0, 1, out);
}

static bool parse_whole(const char *text, uint64_t max, uint64_t *out)
{
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    *out = number;
    return *text >= '0' && *text <= '9' && *end == '\0' && errno == 0 && number <= max;
}

static bool parse_rate(const char *value, struct wring_fault_schedule *out)
{
    double bits_per_s;
    if (!parse_number(value, rates, 1e3, 1e13, &bits_per_s))
        return false;
    out->ns_per_byte = 8e9 / bits_per_s;
    return true;
}

static bool parse_delay(const char *value, struct wring_fault_schedule *out)
{
    return parse_time(value, &out->delay_ns);
}

static bool parse_jitter(const char *value, struct wring_fault_schedule *out)
{
    return parse_time(value, &out->jitter_ns);
}

static bool parse_corrupt(const char *value, struct wring_fault_schedule *out)
{
    return parse_chance(value, &out->corrupt);
}

static bool parse_disconnect(const char *value, struct wring_fault_schedule *out)
{
    double bytes;
    if (strncmp(value, "after:", 6) != 0)
        return parse_chance(value, &out->disconnect);
    if (parse_whole(value + 6, (uint64_t)COUNT_MAX, &out->after_puts))
        return out->after_puts > 0;
    out->after_puts = 0;
    if (!parse_number(value + 6, sizes, 1, COUNT_MAX, &bytes))
        return false;
    out->after_bytes = (uint64_t)bytes;
    return true;
}

static bool parse_seed(const char *value, struct wring_fault_schedule *out)
{
    return parse_whole(value, UINT64_MAX, &out->seed);
}

static bool parse_rank(const char *value, struct wring_fault_schedule *out)
{
    uint64_t rank;
    if (!parse_whole(value, 65535, &rank))
        return false;
    out->rank = (int64_t)rank;
    return true;
}

static const struct {
    const char *name;
    bool (*parse)(const char *value, struct wring_fault_schedule *out);
    const char *needs;
} items[] = {
    {"rate", parse_rate, "a rate from 1kbit to 10000gbit, such as 1gbit"},
    {"delay", parse_delay, "a time up to 10s, such as 2ms"},
    {"jitter", parse_jitter, "a time up to 10s, such as 500us"},
    {"corrupt", parse_corrupt, "a chance from 0 to 1, such as 1e-4"},
    {"disconnect", parse_disconnect, "a chance from 0 to 1, or after:1000 puts, or after:64mb"},
    {"seed", parse_seed, "a whole number"},
    {"rank", parse_rank, "a rank, such as 2"},
};

#define ITEMS (sizeof(items) / sizeof(items[0]))

static size_t find_item(const char *name)
{
    size_t i = 0;
    while (i < ITEMS && strcmp(items[i].name, name) != 0)
        i++;
    return i;
}

/** One "name=value". @param seen the items so far, a bit each */
static bool parse_item(char *item, struct wring_fault_schedule *out, unsigned *seen, char *why,
                       size_t bytes)
{
    char *equals = strchr(item, '=');
    if (equals != NULL)
        *equals = '\0';
    size_t i = equals != NULL ? find_item(item) : ITEMS;
    if (i == ITEMS) {
        snprintf(why, bytes,
                 "'%s' is unknown: there are rate=, delay=, jitter=, corrupt=, disconnect=, seed= "
                 "and rank=",
                 item);
        return false;
    }
    if ((*seen & 1u << i) != 0) {
        snprintf(why, bytes, "%s is given twice", item);
        return false;
    }
    *seen |= 1u << i;
    if (!items[i].parse(equals + 1, out)) {
        snprintf(why, bytes, "%s=%s: needs %s", item, equals + 1, items[i].needs);
        return false;
    }
    return true;
}

bool wring_fault_parse(const char *text, struct wring_fault_schedule *out, char *why, size_t bytes)
{
    struct wring_fault_schedule schedule = {.rank = -1};
    unsigned seen = 0;

    struct wring_list_item part;
    for (const char *rest = *text != '\0' ? text : NULL; wring_list_next(&rest, &part);) {
        char item[ITEM_BYTES];
        if (part.length == 0) {
            snprintf(why, bytes, "nothing stands before or after a comma");
            return false;
        }
        if (part.length >= sizeof(item)) {
            snprintf(why, bytes, "'%.*s...' is too long", ITEM_BYTES / 2, part.text);
            return false;
        }
        memcpy(item, part.text, part.length);
        item[part.length] = '\0';
        if (!parse_item(item, &schedule, &seen, why, bytes))
            return false;
    }
    *out = schedule;
    return true;
}

/**
 * A bijection of 64 bits in which every bit of the input moves about half of the output's.
 * Source: the finaliser of SplitMix64, doi:10.1145/2660193.2660195.
 */
static uint64_t mix(uint64_t x)
{
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

uint64_t wring_fault_random(const struct wring_fault_schedule *schedule, uint32_t rank,
                            enum wring_fault_draw kind, uint64_t n)
{
    return mix(mix(mix(schedule->seed) ^ ((uint64_t)rank << 8 | kind)) ^ n);
}

bool wring_fault_hits(const struct wring_fault_schedule *schedule, double chance, uint32_t rank,
                      enum wring_fault_draw kind, uint64_t n)
{
    double x = (double)(wring_fault_random(schedule, rank, kind, n) >> 11) * 0x1p-53;
    return x < chance;
}

/* ---- harm ---- */

static bool draw_chance(const struct fault_provider *provider, double chance,
                        enum wring_fault_draw kind, uint64_t n)
{
    return chance > 0 && wring_fault_hits(&provider->schedule, chance, provider->rank, kind, n);
}

/** A count cuts once: the counts stand still after it. */
static bool reaches_count(const struct fault_provider *provider, size_t bytes)
{
    const struct wring_fault_schedule *schedule = &provider->schedule;
    if (schedule->after_puts > 0)
        return provider->puts == schedule->after_puts;
    return schedule->after_bytes > 0 && provider->put_bytes <= schedule->after_bytes &&
           provider->put_bytes + bytes > schedule->after_bytes;
}

bool wring_fault_cut(struct fault_provider *provider, struct fault_conn *conn, size_t bytes)
{
    bool counted = reaches_count(provider, bytes);
    if (!counted &&
        !draw_chance(provider, provider->schedule.disconnect, WRING_FAULT_CUT, provider->puts))
        return false;

    snprintf(conn->text, sizeof(conn->text),
             "cut after %" PRIu64 " puts of %" PRIu64 " bytes in all, as disconnect= of "
             "WRING_FAULT on rank %" PRIu32 " asks for; unset it to run without",
             provider->puts, provider->put_bytes, provider->rank);
    wring_info(provider->log, "%s", conn->text);
    provider->puts++; /* so that a count is reached once, and a chance drawn anew */
    provider->put_bytes += bytes;
    wring_fault_forget(provider, conn);
    provider->inner->ops->disconnect(conn->inner);
    conn->inner = NULL;
    conn->closed = conn->cut_untold = true;
    provider->cuts_untold++;
    return true;
}

/** Which bits flip. Never 0. */
static uint8_t spoil_mask_of(uint64_t random)
{
    return (uint8_t)(1 + (random >> 56) % 255);
}

static void copy_free(struct fault_provider *provider, struct fault_copy *copy)
{
    provider->inner->ops->region_destroy(copy->region);
    free(copy);
}

/** Known to the device, where it can send from nothing else. */
static bool copy_register(struct fault_provider *provider, struct fault_copy *copy, size_t bytes)
{
    const struct wring_memory memory = {
        .base = copy->data, .bytes = bytes, .kind = WRING_MEMORY_HOST, .fd = -1};
    if (provider->caps.local_any)
        return true;
    return provider->inner->ops->region_create(provider->inner, &memory, &copy->region) == WRING_OK;
}

static struct fault_copy *copy_create(struct fault_provider *provider,
                                      const struct fault_conn *conn, uint64_t number,
                                      const struct fault_put *put)
{
    struct fault_copy *copy = malloc(sizeof(*copy) + put->bytes);
    if (copy == NULL)
        return NULL;
    copy->region = NULL;
    if (!copy_register(provider, copy, put->bytes)) {
        free(copy);
        return NULL;
    }
    copy->next = provider->copies;
    copy->conn = conn;
    copy->number = number;
    memcpy(copy->data, put->local, put->bytes);
    provider->copies = copy;
    return copy;
}

static bool is_copy(const struct fault_provider *provider, const void *local)
{
    const struct fault_copy *at = provider->copies;
    while (at != NULL && at->data != local)
        at = at->next;
    return at != NULL;
}

bool wring_fault_copy_source(struct fault_provider *provider, const struct fault_conn *conn,
                             uint32_t i, struct fault_put *put)
{
    if (put->bytes == 0 || is_copy(provider, put->local))
        return true;
    struct fault_copy *copy = copy_create(provider, conn, conn->left + i, put);
    if (copy == NULL)
        return false;
    put->local = copy->data;
    put->region = copy->region;
    return true;
}

/** @param number  NULL: of any put */
static void copies_free(struct fault_provider *provider, const struct fault_conn *conn,
                        const uint64_t *number)
{
    for (struct fault_copy **at = &provider->copies; *at != NULL;) {
        struct fault_copy *copy = *at;
        if ((conn != NULL && copy->conn != conn) || (number != NULL && copy->number != *number)) {
            at = &copy->next;
            continue;
        }
        *at = copy->next;
        copy_free(provider, copy);
    }
}

void wring_fault_put_done(struct fault_provider *provider, struct fault_conn *conn)
{
    copies_free(provider, conn, &conn->done);
    conn->done++;
}

void wring_fault_copies_free(struct fault_provider *provider, const struct fault_conn *conn)
{
    copies_free(provider, conn, NULL);
}

static enum wring_status put_inner(const struct fault_conn *conn, const struct fault_put *put,
                                   struct wring_region *region, const void *local)
{
    return conn->inner->provider->ops->put(conn->inner, region, local, put->remote->inner,
                                           put->remote_offset, put->bytes, put->imm, put->cookie);
}

static enum wring_status put_spoiled(struct fault_provider *provider, struct fault_conn *conn,
                                     const struct fault_put *put)
{
    const struct wring_provider_ops *ops = provider->inner->ops;
    uint64_t random = wring_fault_random(&provider->schedule, provider->rank, WRING_FAULT_POSITION,
                                         provider->puts);
    if (ops->spoil(conn->inner, random, spoil_mask_of(random)) == WRING_OK) {
        enum wring_status status = put_inner(conn, put, put->region, put->local);
        if (status != WRING_OK)
            ops->spoil(conn->inner, 0, 0);
        return status;
    }
    if (put->bytes == 0) /* nothing to change */
        return put_inner(conn, put, put->region, put->local);
    struct fault_copy *copy = copy_create(provider, conn, conn->left, put);
    if (copy == NULL)
        return WRING_ERR_AGAIN; /* the put was accepted: it waits until there is memory */
    copy->data[random % put->bytes] ^= spoil_mask_of(random);
    enum wring_status status = put_inner(conn, put, copy->region, copy->data);
    if (status != WRING_OK) { /* it waits on, perhaps in a copy of its own */
        provider->copies = copy->next;
        copy_free(provider, copy);
    }
    return status;
}

enum wring_status wring_fault_deliver(struct fault_provider *provider, struct fault_conn *conn,
                                      const struct fault_put *put)
{
    bool spoil =
        draw_chance(provider, provider->schedule.corrupt, WRING_FAULT_SPOIL_PUT, provider->puts);
    enum wring_status status =
        spoil ? put_spoiled(provider, conn, put) : put_inner(conn, put, put->region, put->local);
    if (status == WRING_ERR_AGAIN)
        return status;
    if (spoil)
        wring_info(provider->log, "put %" PRIu64 ", %zu bytes, was corrupted", provider->puts,
                   put->bytes);
    provider->puts++;
    provider->put_bytes += put->bytes;
    conn->left += status == WRING_OK;
    return status;
}

enum wring_status wring_fault_send(struct wring_conn *base, const void *data, size_t bytes)
{
    struct fault_conn *conn = fault_conn_of(base);
    struct fault_provider *provider = fault_of(base->provider);
    const struct wring_provider_ops *ops = provider->inner->ops;
    uint8_t copy[WRING_SEND_MAX];

    if (conn->closed)
        return WRING_ERR_CLOSED;
    if (bytes < 1 || bytes > sizeof(copy))
        return WRING_ERR_INVALID;
    bool spoil = draw_chance(provider, provider->schedule.corrupt, WRING_FAULT_SPOIL_MESSAGE,
                             provider->messages);
    uint64_t random = wring_fault_random(&provider->schedule, provider->rank, WRING_FAULT_POSITION,
                                         ~provider->messages);
    bool below = spoil && ops->spoil(conn->inner, random, spoil_mask_of(random)) == WRING_OK;
    memcpy(copy, data, bytes);
    if (spoil && !below)
        copy[random % bytes] ^= spoil_mask_of(random);
    enum wring_status status = ops->send(conn->inner, copy, bytes);
    if (status != WRING_OK) {
        if (below)
            ops->spoil(conn->inner, 0, 0);
        return status;
    }
    if (spoil)
        wring_info(provider->log, "message %" PRIu64 " was corrupted", provider->messages);
    provider->messages++;
    return WRING_OK;
}
