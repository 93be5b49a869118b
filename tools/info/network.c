/* SPDX-License-Identifier: Apache-2.0 */
/** Where a rank would listen: which rule says so, and what this host has to choose from. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tools/info/info.h"
#include "transport/bootstrap/launcher.h"
#include "transport/bootstrap/rendezvous_private.h"
#include "transport/interface.h"

#define SEEN_TEXT 512

struct choice {
    const char *rule;
    char address[WRING_INTERFACE_ADDRESS];
    char reason[160]; /* why there is no address; "": there is */
};

/** Our end of a way there, which nothing is sent on. */
static bool find_way(const struct wring_rendezvous_place *place, char *text)
{
    struct sockaddr_storage own;
    socklen_t bytes = sizeof(own);
    int fd = socket(place->address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool found = fd >= 0 &&
                 connect(fd, (const struct sockaddr *)&place->address, place->bytes) == 0 &&
                 getsockname(fd, (struct sockaddr *)&own, &bytes) == 0 &&
                 getnameinfo((struct sockaddr *)&own, bytes, text, WRING_INTERFACE_ADDRESS, NULL, 0,
                             NI_NUMERICHOST) == 0;
    if (fd >= 0)
        close(fd);
    return found;
}

/** @param root  "host:port" of rank 0, or several; "" where nothing says it @param name  what says
 * it */
static void choose_by_root(const char *root, const char *name, struct choice *choice)
{
    struct wring_rendezvous_params params = {.rank = 1, .root = root, .key = "any"};
    struct wring_rendezvous_places *places = malloc(sizeof(*places));
    bool found = false;

    choice->rule = "the interface that reaches rank 0";
    if (root[0] == '\0')
        snprintf(choice->reason, sizeof(choice->reason), "%s is not set", name);
    else if (places == NULL || wring_rendezvous_find_places(&params, places) != WRING_OK)
        snprintf(choice->reason, sizeof(choice->reason), "%s means nothing on this host", name);
    else
        for (unsigned i = 0; i < places->n && !found; i++)
            found = find_way(&places->at[i], choice->address);
    if (!found && choice->reason[0] == '\0')
        snprintf(choice->reason, sizeof(choice->reason), "no interface reaches %s", name);
    free(places);
}

/** A launcher may say where rank 0 is, or carry a key of its own. */
static void choose_by_launcher(const struct wring_config *config, struct choice *choice)
{
    struct wring_launched launched = {.size = 1, .local_size = -1};
    char root[WRING_LAUNCHER_ROOT];

    wring_launcher_find(config, NULL, &launched);
    bool has_key =
        config->key[0] != '\0' || config->key_file[0] != '\0' || launched.exchange != NULL;
    if (has_key && config->root[0] != '\0') {
        if (wring_launcher_root(config, NULL, root) != WRING_OK)
            snprintf(root, sizeof(root), "%s", config->root);
        choose_by_root(root, "WRING_ROOT", choice);
    } else if (!has_key || wring_launched_here(&launched)) {
        choice->rule =
            has_key ? "loopback, as all ranks run on this host" : "loopback, as there is no key";
        snprintf(choice->address, sizeof(choice->address), "127.0.0.1");
    } else if (launched.exchange != NULL) {
        choice->rule = "the interface that reaches rank 0";
        snprintf(choice->reason, sizeof(choice->reason),
                 "the ranks hear rank 0's addresses by %s as they meet", launched.exchange->name);
    } else {
        const char *name = launched.host[0] != '\0' ? launched.host : "WRING_ROOT";
        snprintf(root, sizeof(root), "%s%s", launched.host, launched.host[0] != '\0' ? ":1" : "");
        choose_by_root(root, name, choice);
    }
}

/** As sessions choose. */
static void choose(const struct wring_config *config, struct choice *choice)
{
    if (config->bind[0] != '\0' && config->iface[0] != '\0') {
        choice->rule = "WRING_BIND";
        snprintf(choice->reason, sizeof(choice->reason),
                 "WRING_BIND and WRING_IFACE are set: set one of them");
    } else if (config->bind[0] != '\0') {
        choice->rule = "WRING_BIND";
        snprintf(choice->address, sizeof(choice->address), "%.*s", (int)sizeof(choice->address) - 1,
                 config->bind);
        if (!wring_interface_has(choice->address))
            snprintf(choice->reason, sizeof(choice->reason),
                     "no interface of this host has that address");
    } else if (config->iface[0] != '\0') {
        choice->rule = "WRING_IFACE";
        if (wring_interface_find(NULL, config->iface, "", choice->address) != WRING_OK)
            snprintf(choice->reason, sizeof(choice->reason),
                     "no such interface is up and has an address that others can reach");
    } else {
        choose_by_launcher(config, choice);
    }
}

json_t *wring_info_network(const struct wring_config *config)
{
    struct choice choice = {0};
    char seen[SEEN_TEXT], name[WRING_INTERFACE_ADDRESS];

    choose(config, &choice);
    wring_interface_list(seen, sizeof(seen));
    wring_interface_name(choice.address, name, sizeof(name));
    return json_pack("{s:s, s:o, s:s, s:o, s:o, s:s}", "rule", choice.rule, "address",
                     wring_json_text(choice.address), "interface", name, "reason",
                     wring_json_text(choice.reason), "ports",
                     wring_json_text(config->ports[0] != '\0' ? config->ports : "any"),
                     "interfaces", seen);
}

void wring_info_show_network(FILE *file, json_t *network)
{
    const char *reason = json_string_value(json_object_get(network, "reason"));
    const char *address = json_string_value(json_object_get(network, "address"));
    const char *name = json_string_value(json_object_get(network, "interface"));

    fprintf(file,
            "Network (WRING_BIND, else WRING_IFACE, else the interface that reaches the root):\n");
    fprintf(file, "  rule        %s\n", json_string_value(json_object_get(network, "rule")));
    if (reason[0] != '\0')
        fprintf(file, "  address     none: %s\n", reason);
    else
        fprintf(file, "  address     %s%s%s\n", address, name[0] != '\0' ? " on " : "", name);
    fprintf(file, "  ports       %s\n", json_string_value(json_object_get(network, "ports")));
    fprintf(file, "  interfaces  %s\n\n",
            json_string_value(json_object_get(network, "interfaces")));
}

/* ---- launcher ---- */

/* Which launcher this process sees, and what a session would take from it. */

/** Keeps the reason instead of printing it. @param arg  [WRING_LAUNCHER_TEXT] */
static void keep_reason(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)module;
    if (level == WRING_LOG_ERROR)
        snprintf(arg, WRING_LAUNCHER_TEXT, "%s", text);
}

static const char *key_source(const struct wring_config *config,
                              const struct wring_launched *launched)
{
    if (config->key[0] != '\0')
        return "WRING_KEY";
    if (config->key_file[0] != '\0')
        return "WRING_KEY_FILE";
    return launched->exchange != NULL ? "launcher" : "none";
}

/** Where ranks would meet, as far as this process knows alone. @param text out, [bytes] */
static void write_root(const struct wring_config *config, const struct wring_launched *launched,
                       char *text, size_t bytes)
{
    struct wring_ports configured = {0}, ports;
    char root[WRING_LAUNCHER_ROOT];
    struct wring_log silent = {.fn = NULL, .level = WRING_LOG_ERROR};

    text[0] = '\0';
    if (launched->size == 1)
        return;
    if (config->root[0] != '\0') {
        bool is_whole = wring_launcher_root(config, NULL, root) == WRING_OK;
        snprintf(text, bytes, "%s", is_whole ? root : config->root);
    } else if (launched->exchange != NULL) {
        snprintf(text, bytes, "rank 0 tells by %s", launched->exchange->name);
    } else if (launched->host[0] != '\0' &&
               wring_ports_read(&silent, config->ports, &configured) == WRING_OK) {
        ports = wring_launcher_ports(&configured, launched->job);
        snprintf(text, bytes, "%s:%u-%u",
                 wring_launched_here(launched) ? "127.0.0.1" : launched->host, ports.first,
                 ports.last);
    }
}

static json_t *number_or_null(int32_t number)
{
    return number >= 0 ? json_integer(number) : json_null();
}

json_t *wring_info_launcher(const struct wring_config *config)
{
    char reason[WRING_LAUNCHER_TEXT] = "", root[WRING_LAUNCHER_ROOT];
    struct wring_log log = {.fn = keep_reason, .arg = reason, .level = WRING_LOG_ERROR};
    struct wring_launched launched = {.rank = 0, .size = 1, .local_rank = -1, .local_size = -1};
    bool usable = wring_launcher_find(config, &log, &launched) == WRING_OK;

    write_root(config, &launched, root, sizeof(root));
    return json_pack("{s:o, s:b, s:o, s:o, s:i, s:i, s:o, s:o, s:o, s:s}", "name",
                     launched.name != NULL ? json_string(launched.name) : json_null(), "usable",
                     usable, "reason", wring_json_text(reason), "exchange",
                     launched.exchange != NULL ? json_string(launched.exchange->name) : json_null(),
                     "rank", (int)launched.rank, "size", (int)launched.size, "local_rank",
                     number_or_null(launched.local_rank), "local_size",
                     number_or_null(launched.local_size), "root", wring_json_text(root), "key",
                     key_source(config, &launched));
}
