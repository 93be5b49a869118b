/* SPDX-License-Identifier: Apache-2.0 */
/** From the settings and what there is to the rails to open, or to show. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/log.h"
#include "transport/providers/verbs/verbs_ability.h"
#include "transport/providers/verbs/verbs_pick.h"
#include "transport/providers/verbs/verbs_query.h"
#include "transport/providers/verbs/verbs_survey.h"

#define WRING_MODULE "verbs"
#define LIST_TEXT 1024

/** @param bound  [16], to be kept as long as the wish; NULL: nothing is bound */
static struct verbs_wish wish_of(const struct wring_config *config, const uint8_t *bound)
{
    if (config == NULL)
        return (struct verbs_wish){
            .devices = "", .rails = 4, .gid_index = -1, .pkey = 0xffff, .bound = bound};
    return (struct verbs_wish){
        .devices = config->verbs_devices,
        .rails = (unsigned)config->verbs_rails,
        .gid_index = (int)config->verbs_gid_index,
        .pkey = (uint16_t)config->verbs_pkey,
        .mtu = (uint32_t)strtoul(config->verbs_mtu, NULL, 10),
        .bound = bound,
    };
}

/** "dev:port: why", all of them. @param text out, [LIST_TEXT] */
static void list_reasons(const struct verbs_table *table, char (*why)[VERBS_WHY], char *text)
{
    size_t n = 0;
    text[0] = '\0';
    for (size_t i = 0; i < table->n && n < LIST_TEXT; i++)
        n += (size_t)snprintf(text + n, LIST_TEXT - n, "%s%s:%u: %s", i > 0 ? "; " : "",
                              table->ports[i].device, table->ports[i].number, why[i]);
}

static bool is_chosen(const struct verbs_choice *choices, size_t n, const struct verbs_port *port)
{
    for (size_t i = 0; i < n; i++)
        if (choices[i].port == port->number && strcmp(choices[i].device, port->device) == 0)
            return true;
    return false;
}

/** What was named and is not used is worth a warning, what nobody named is not. */
static void log_choice(const struct wring_log *log, const struct verbs_table *table,
                       const struct verbs_wish *wish, const struct verbs_choice *choices, size_t n,
                       char (*why)[VERBS_WHY])
{
    bool named = wish->devices[0] != '\0' && wish->devices[0] != '^';
    for (size_t i = 0; i < table->n; i++) {
        const struct verbs_port *port = &table->ports[i];
        if (is_chosen(choices, n, port))
            wring_info(log, "rail %s:%u, %s, %g Gbit/s, MTU %u: %s", port->device, port->number,
                       wring_verbs_link_text(port->link), port->mbit / 1e3, port->mtu, why[i]);
        else if (named && wring_verbs_match(wish->devices, port->device, port->number) >= 0)
            wring_warn(log, "%s:%u is not used: %s", port->device, port->number, why[i]);
        else
            wring_info(log, "%s:%u is not used: %s", port->device, port->number, why[i]);
    }
}

static enum wring_status choose_and_log(const struct verbs_table *table,
                                        const struct verbs_wish *wish, const struct wring_log *log,
                                        struct verbs_choice *out, size_t *n)
{
    char text[LIST_TEXT];
    char(*why)[VERBS_WHY] = calloc(table->n, sizeof(*why));
    if (why == NULL)
        return WRING_ERR_NO_MEMORY;
    size_t chosen = wring_verbs_choose(table, wish, out, why);
    if (wring_verbs_unmatched(wish->devices, table, text, sizeof(text)))
        wring_warn(log, "WRING_VERBS_DEVICES=%s: there is no %s", wish->devices, text);
    if (chosen > 0) {
        log_choice(log, table, wish, out, chosen, why);
        *n = chosen;
    } else {
        list_reasons(table, why, text);
        wring_error(log, "no RDMA device can be used: %s", text);
    }
    free(why);
    return chosen > 0 ? WRING_OK : WRING_ERR_DEVICE;
}

enum wring_status wring_verbs_select(const struct verbs_library *library,
                                     const struct wring_config *config,
                                     const struct sockaddr *bound, const struct wring_log *log,
                                     struct verbs_choice *out, size_t *n)
{
    uint8_t gid[16];
    char reason[VERBS_WHY];
    struct verbs_table table;
    bool has_bound = bound != NULL && wring_verbs_gid_of(bound, gid);
    const struct verbs_wish wish = wish_of(config, has_bound ? gid : NULL);

    const char *fault = wring_verbs_list_fault(wish.devices);
    if (fault != NULL) {
        wring_error(log, "WRING_VERBS_DEVICES=%s: %s", wish.devices, fault);
        return WRING_ERR_INVALID;
    }
    if (!wring_verbs_table_read(library, false, &table, reason, sizeof(reason))) {
        wring_error(log, "%s", reason);
        return WRING_ERR_DEVICE;
    }
    enum wring_status status = choose_and_log(&table, &wish, log, out, n);
    wring_verbs_table_free(&table);
    return status;
}

/** An address as a GID. @return false where the text is none, but a name or nothing */
static bool read_bound(const char *text, uint8_t *gid)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
        return wring_verbs_gid_of((const struct sockaddr *)&v4, gid);
    return inet_pton(AF_INET6, text, &v6.sin6_addr) == 1 &&
           wring_verbs_gid_of((const struct sockaddr *)&v6, gid);
}

/** The rails that would be chosen from a table that was read. @return false without memory */
static bool choose_for_show(const struct wring_config *config, struct verbs_survey *survey)
{
    uint8_t bound[16], *has_bound = read_bound(config->bind, bound) ? bound : NULL;
    const struct verbs_wish wish = wish_of(config, has_bound);
    const char *fault = wring_verbs_list_fault(wish.devices);
    survey->why = calloc(survey->table.n, sizeof(*survey->why));
    if (survey->why == NULL)
        return false;
    wring_verbs_unmatched(wish.devices, &survey->table, survey->unmatched,
                          sizeof(survey->unmatched));
    if (fault == NULL)
        survey->n_rails = wring_verbs_choose(&survey->table, &wish, survey->rails, survey->why);
    for (size_t i = 0; fault != NULL && i < survey->table.n; i++)
        snprintf(survey->why[i], VERBS_WHY, "WRING_VERBS_DEVICES: %s", fault);
    return true;
}

void wring_verbs_survey(const struct wring_config *config, struct verbs_survey *out)
{
    struct verbs_library library = {0};
    *out = (struct verbs_survey){0};
    if (wring_verbs_library_load(&library, out->reason, sizeof(out->reason)) &&
        wring_verbs_table_read(&library, true, &out->table, out->reason, sizeof(out->reason)) &&
        !choose_for_show(config, out)) {
        wring_verbs_table_free(&out->table);
        snprintf(out->reason, sizeof(out->reason), "out of memory");
    }
    wring_verbs_library_unload(&library);
}

/** @return how many rails would be chosen; 0, and why, where it is none */
static size_t choose_quietly(const struct verbs_library *library, const struct verbs_wish *wish,
                             struct verbs_choice *rails, char *reason, size_t bytes)
{
    char text[LIST_TEXT] = "out of memory";
    struct verbs_table table;
    size_t n = 0;
    if (!wring_verbs_table_read(library, false, &table, reason, bytes))
        return 0;
    char(*why)[VERBS_WHY] = calloc(table.n, sizeof(*why));
    if (why != NULL) {
        n = wring_verbs_choose(&table, wish, rails, why);
        list_reasons(&table, why, text);
    }
    if (n == 0)
        snprintf(reason, bytes, "%s", text);
    free(why);
    wring_verbs_table_free(&table);
    return n;
}

enum wring_status wring_verbs_probe(char *reason, size_t bytes)
{
    struct verbs_library library = {0};
    struct verbs_choice rails[VERBS_RAILS_MAX];
    const struct verbs_wish wish = wish_of(NULL, NULL);
    size_t n = 0;
    if (wring_verbs_library_load(&library, reason, bytes))
        n = choose_quietly(&library, &wish, rails, reason, bytes);
    wring_verbs_library_unload(&library);
    return n > 0 ? WRING_OK : WRING_ERR_UNSUPPORTED;
}

/** Would auto do well with these rails? */
static bool suit(const struct verbs_library *library, const struct verbs_wish *wish,
                 const struct verbs_choice *rails, size_t n, char *reason, size_t bytes)
{
    bool named = wish->devices[0] != '\0' && wish->devices[0] != '^';
    for (size_t i = 0; i < n; i++) {
        if (rails[i].vendor == VERBS_VENDOR_SOFT && !named) {
            snprintf(reason, bytes,
                     "%s is soft-RoCE, slower than tcp (WRING_VERBS_DEVICES names it)",
                     rails[i].device);
            return false;
        }
        if (!wring_verbs_may_lock(library, rails[i].device, reason, bytes))
            return false;
    }
    return n > 0;
}

enum wring_status wring_verbs_suits(const struct wring_config *config, char *reason, size_t bytes)
{
    struct verbs_library library = {0};
    struct verbs_choice rails[VERBS_RAILS_MAX];
    const struct verbs_wish wish = wish_of(config, NULL);
    const char *fault = wring_verbs_list_fault(wish.devices);
    bool good = false;
    if (fault != NULL)
        snprintf(reason, bytes, "WRING_VERBS_DEVICES=%s: %s", wish.devices, fault);
    else if (wring_verbs_library_load(&library, reason, bytes))
        good = suit(&library, &wish, rails, choose_quietly(&library, &wish, rails, reason, bytes),
                    reason, bytes);
    wring_verbs_library_unload(&library);
    return good ? WRING_OK : WRING_ERR_UNSUPPORTED;
}
