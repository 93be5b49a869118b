/* SPDX-License-Identifier: Apache-2.0 */
/** Lists of devices and ports, as WRING_VERBS_DEVICES has them. */
#include "transport/providers/verbs/devices.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "transport/providers/verbs/select.h"

struct verbs_item { /* of a list */
    const char *name;
    size_t length, all; /* of the name, and with the port */
    unsigned port;      /* 0: any */
    bool well_formed;
};

/** The item at *list, which moves behind it; false at the end. */
static bool next_item(const char **list, struct verbs_item *item)
{
    struct wring_list_item part;
    if (!wring_list_next(list, &part))
        return false;
    const char *at = part.text;
    size_t all = part.length;
    size_t length = strcspn(at, ",:");
    length = length < all ? length : all;
    *item = (struct verbs_item){.name = at,
                                .length = length,
                                .all = all,
                                .well_formed = length > 0 && memchr(at, ' ', all) == NULL &&
                                               at[0] != '^' && at[0] != '='};
    if (length < all) {
        char *end;
        unsigned long port = strtoul(at + length + 1, &end, 10);
        bool digits = at[length + 1] >= '0' && at[length + 1] <= '9';
        item->well_formed &= digits && end == at + all && port >= 1 && port <= UINT8_MAX;
        item->port = item->well_formed ? (unsigned)port : 0;
    }
    return true;
}

/** Read the signs before the names: ^ for all but these, = for exact names. */
static const char *read_signs(const char *list, bool *without, bool *exact)
{
    *without = *list == '^';
    list += *without;
    *exact = *list == '=';
    return list + *exact;
}

static bool is_named(const struct verbs_item *item, bool exact, const char *device, unsigned port)
{
    bool equal =
        strncmp(item->name, device, item->length) == 0 && (!exact || device[item->length] == '\0');
    return item->well_formed && equal && (item->port == 0 || item->port == port);
}

int wring_verbs_match(const char *list, const char *device, unsigned port)
{
    bool without, exact;
    struct verbs_item item;
    int found = -1;

    if (*list == '\0')
        return 0;
    list = read_signs(list, &without, &exact);
    for (int i = 0; found < 0 && next_item(&list, &item); i++)
        if (is_named(&item, exact, device, port))
            found = i;
    if (without)
        return found < 0 ? 0 : -1;
    return found;
}

static const char *fault_of(const struct verbs_item *item)
{
    if (item->length == 0)
        return "a name is empty";
    if (item->name[0] == '^' || item->name[0] == '=')
        return "^ and = stand once, before all names";
    return memchr(item->name, ' ', item->length) != NULL ? "names are separated by commas"
                                                         : "a port is not a number from 1 to 255";
}

const char *wring_verbs_list_fault(const char *list)
{
    bool without, exact;
    struct verbs_item item;

    list = read_signs(list, &without, &exact);
    if (*list == '\0' && (without || exact))
        return "it names no device";
    for (const char *at = *list != '\0' ? list : NULL; next_item(&at, &item);)
        if (!item.well_formed)
            return fault_of(&item);
    return NULL;
}

static bool names_any(const struct verbs_item *item, bool exact, const struct verbs_table *table)
{
    for (size_t i = 0; i < table->n; i++)
        if (is_named(item, exact, table->ports[i].device, table->ports[i].number))
            return true;
    return false;
}

bool wring_verbs_unmatched(const char *list, const struct verbs_table *table, char *text,
                           size_t bytes)
{
    bool without, exact;
    struct verbs_item item;
    size_t n = 0;

    text[0] = '\0';
    list = read_signs(list, &without, &exact);
    while (!without && next_item(&list, &item))
        if (!names_any(&item, exact, table) && n < bytes)
            n += (size_t)snprintf(text + n, bytes - n, "%s%.*s", n > 0 ? ", " : "", (int)item.all,
                                  item.name);
    return n > 0;
}

/* ---- text ---- */

/* Names of the values in verbs/devices.h, for people. */

static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff}; /* before an IPv4 address */

const char *wring_verbs_link_text(enum verbs_link link)
{
    switch (link) {
    case VERBS_LINK_OTHER:
        return "other";
    case VERBS_LINK_INFINIBAND:
        return "InfiniBand";
    case VERBS_LINK_ROCE:
        return "RoCE";
    }
    return "unknown";
}

const char *wring_verbs_gid_type_text(enum verbs_gid_type type)
{
    switch (type) {
    case VERBS_GID_INFINIBAND:
        return "InfiniBand";
    case VERBS_GID_ROCE_V1:
        return "RoCE v1";
    case VERBS_GID_ROCE_V2:
        return "RoCE v2";
    }
    return "unknown";
}

const char *wring_verbs_state_text(unsigned state)
{
    static const char *const names[] = {"in an unknown state",   "down",   "initialising",
                                        "armed, not yet active", "active", "active, but deferred"};
    return state < sizeof(names) / sizeof(names[0]) ? names[state] : names[0];
}

const char *wring_verbs_gid_text(const uint8_t *gid, char *text)
{
    bool v4 = memcmp(gid, mapped, sizeof(mapped)) == 0;
    const void *bytes = v4 ? gid + sizeof(mapped) : gid;
    if (inet_ntop(v4 ? AF_INET : AF_INET6, bytes, text, VERBS_GID_TEXT) == NULL)
        snprintf(text, VERBS_GID_TEXT, "?");
    return text;
}

bool wring_verbs_gid_of(const struct sockaddr *address, uint8_t *gid)
{
    if (address->sa_family == AF_INET6) {
        memcpy(gid, &((const struct sockaddr_in6 *)address)->sin6_addr, 16);
        return true;
    }
    if (address->sa_family != AF_INET)
        return false;
    memcpy(gid, mapped, sizeof(mapped));
    memcpy(gid + sizeof(mapped), &((const struct sockaddr_in *)address)->sin_addr, 4);
    return true;
}

/* ---- survey ---- */

void wring_verbs_survey_finish(struct verbs_survey *survey)
{
    free(survey->table.ports);
    free(survey->why);
    *survey = (struct verbs_survey){0};
}

/* ---- counters ---- */

void wring_verbs_counters_since(struct wring_verbs_counters *now,
                                const struct wring_verbs_counters *before)
{
    now->puts -= before->puts;
    now->put_bytes -= before->put_bytes;
    now->sends -= before->sends;
    now->requests -= before->requests;
    now->signalled -= before->signalled;
    now->inlined -= before->inlined;
    now->doorbells -= before->doorbells;
    now->credit_writes -= before->credit_writes;
    now->receives -= before->receives;
    now->receive_doorbells -= before->receive_doorbells;
    now->completions -= before->completions;
    now->control_bytes -= before->control_bytes;
    now->copied_bytes -= before->copied_bytes;
    now->registrations -= before->registrations;
    now->paths_lost -= before->paths_lost;
    now->trials -= before->trials;
    now->resyncs -= before->resyncs;
    now->recoveries -= before->recoveries;
}
