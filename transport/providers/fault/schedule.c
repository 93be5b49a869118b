/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "transport/providers/fault/fault.h"

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
