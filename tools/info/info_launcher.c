/* SPDX-License-Identifier: Apache-2.0 */
/** Which launcher this process sees, and what a session would take from it. */
#include <stdio.h>

#include "tools/info/info.h"
#include "transport/bootstrap/launcher.h"

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
