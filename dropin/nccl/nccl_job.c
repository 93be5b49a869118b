/* SPDX-License-Identifier: Apache-2.0 */
/* The process: from NCCL's first init() to its last finalize(). */
#include "dropin/nccl/nccl_own.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "transport/auth.h"
#include "transport/bootstrap/job_key.h"
#include "transport/providers/providers.h"
#include <wring/provider.h>

static void leave_if_unused(void);
static void look_at_all(struct wring_nccl_watch *watch, int wake);

struct wring_nccl_own wring_nccl_own = {
    .mutex = PTHREAD_MUTEX_INITIALIZER, .leave = leave_if_unused, .look = look_at_all};

/** What wring says of no session. */
static void log_wring_line(void *arg, enum wring_log_level level, const char *module,
                           const char *text)
{
    static const enum wring_nccl_log_level levels[] = {
        [WRING_LOG_ERROR] = WRING_NCCL_LOG_WARN,
        [WRING_LOG_WARN] = WRING_NCCL_LOG_WARN,
        [WRING_LOG_INFO] = WRING_NCCL_LOG_INFO,
        [WRING_LOG_DEBUG] = WRING_NCCL_LOG_TRACE,
    };
    (void)arg;
    wring_nccl_say(levels[level], "wring: %s: %s", module, text);
}

/* ---- what there is ---- */

/** Which providers can be used here. @return false: none, which is logged */
static bool list_providers(bool *rdma)
{
    struct wring_nccl_own *own = &wring_nccl_own;
    bool automatic = strcmp(own->config.provider, "auto") == 0;
    char reason[256] = "there is no such provider";
    size_t at = 0;

    *rdma = false;
    own->providers[0] = '\0';
    for (const struct wring_provider_ops *const *ops = wring_provider_list(); *ops != NULL; ops++) {
        if ((!automatic && !wring_nccl_names(own->config.provider, (*ops)->name)) ||
            (*ops)->probe(reason, sizeof(reason)) != WRING_OK)
            continue;
        *rdma |= strcmp((*ops)->name, "verbs") == 0;
        at += (size_t)snprintf(own->providers + at, sizeof(own->providers) - at, "%s%s",
                               at > 0 ? "," : "", (*ops)->name);
    }
    if (at == 0)
        wring_nccl_say(
            WRING_NCCL_LOG_WARN,
            "wring: WRING_PROVIDER=%s leaves no provider that works here: %s; wring info "
            "shows all of them",
            own->config.provider, reason);
    return at > 0;
}

/** Which of this host's addresses others reach. Bridges of containers rarely lead to another host.
 */
static enum wring_status find_address(void)
{
    struct wring_nccl_own *own = &wring_nccl_own;

    if (own->config.bind[0] != '\0') {
        snprintf(own->address, sizeof(own->address), "%.*s", (int)sizeof(own->address) - 1,
                 own->config.bind);
        return WRING_OK;
    }
    if (own->config.iface[0] != '\0')
        return wring_interface_find_by(&own->log, own->iface_by, own->config.iface, "",
                                       own->address);
    enum wring_status status = wring_interface_find(
        NULL, "^docker,br-,virbr,veth,cni,flannel,cali,lxc,podman", "", own->address);
    if (status == WRING_ERR_ADDRESS) { /* ranks of one host need no more */
        snprintf(own->address, sizeof(own->address), "127.0.0.1");
        status = WRING_OK;
    }
    return status;
}

/* ---- the beginning ---- */

/** A variable of NCCL's that says the same as one of ours, which is not set. */
static enum wring_status take_nccl_variable(const char *of_nccl, const char *name)
{
    struct wring_nccl_own *own = &wring_nccl_own;
    const char *value = wring_config_foreign(of_nccl);

    if (value == NULL || *value == '\0' || wring_config_given(&own->config, name))
        return WRING_OK;
    if (strlen(value) >= WRING_CONFIG_TEXT) {
        wring_nccl_say(WRING_NCCL_LOG_WARN, "wring: %s is longer than %d bytes: set %s instead",
                       of_nccl, WRING_CONFIG_TEXT - 1, name);
        return WRING_ERR_INVALID;
    }
    wring_nccl_say(WRING_NCCL_LOG_INFO, "wring: %s is not set: %s=%s counts", name, of_nccl, value);
    snprintf(own->settings[own->n_settings], sizeof(own->settings[0]), "%s=%s", name, value);
    own->n_settings++;
    return wring_config_set(&own->config, &own->log, name, value);
}

/** Lists of interfaces and of RDMA devices are written as NCCL's. */
static enum wring_status heed_nccl_variables(void)
{
    struct wring_nccl_own *own = &wring_nccl_own;
    enum wring_status status = WRING_OK;

    own->n_settings = 0;
    own->iface_by = "WRING_IFACE";
    if (!wring_config_given(&own->config, "WRING_BIND"))
        status = take_nccl_variable("NCCL_SOCKET_IFNAME", "WRING_IFACE");
    if (own->n_settings > 0)
        own->iface_by = "NCCL_SOCKET_IFNAME";
    return status == WRING_OK ? take_nccl_variable("NCCL_IB_HCA", "WRING_VERBS_DEVICES") : status;
}

static enum wring_status read_settings(void)
{
    struct wring_nccl_own *own = &wring_nccl_own;
    struct wring_config keyed;

    enum wring_status status = wring_config_load(&own->config, &own->log);
    if (status != WRING_OK)
        return status;
    own->log.level = wring_config_log_level(&own->config);
    status = heed_nccl_variables();
    if (status != WRING_OK)
        return status;
    keyed = own->config;
    status = wring_job_key_read(&own->log, NULL, &keyed);
    if (status != WRING_OK)
        return status;
    memcpy(own->key, keyed.key, sizeof(own->key));
    status = wring_nccl_coll_read_codecs();
    if (status != WRING_OK)
        return status;
    return wring_random_bytes(own->process, sizeof(own->process)) ? WRING_OK : WRING_ERR_SYSTEM;
}

static enum wring_status find_network(char *interface, size_t bytes)
{
    bool rdma;

    if (!list_providers(&rdma))
        return WRING_ERR_UNSUPPORTED;
    enum wring_status status = find_address();
    if (status != WRING_OK)
        return status;
    wring_interface_name(wring_nccl_own.address, interface, bytes);
    wring_nccl_devices_find(rdma, interface);
    return WRING_OK;
}

static void name_process(void)
{
    char host[65] = "";

    gethostname(host, sizeof(host) - 1);
    snprintf(wring_nccl_own.name, sizeof(wring_nccl_own.name), "process %d of %s", (int)getpid(),
             host);
}

/** Another file of ours in this process? @param arg out: its path */
static int find_other_copy(struct dl_phdr_info *info, size_t bytes, void *arg)
{
    const char *slash = strrchr(info->dlpi_name, '/');
    const char *name = slash != NULL ? slash + 1 : info->dlpi_name;
    Dl_info own;
    (void)bytes;

    if ((strncmp(name, "libnccl-net", 11) != 0 && strncmp(name, "librccl-net", 11) != 0) ||
        strstr(name, "wring") == NULL || dladdr(&wring_nccl_own, &own) == 0 ||
        (uintptr_t)own.dli_fbase == (uintptr_t)info->dlpi_addr)
        return 0;
    *(const char **)arg = info->dlpi_name;
    return 1;
}

static void log_introduction(const char *table, const char *interface)
{
    const struct wring_nccl_own *own = &wring_nccl_own;
    const char *copy = NULL;
    char sums[512];

    wring_nccl_coll_show_codecs(sums, sizeof(sums));
    wring_nccl_say(WRING_NCCL_LOG_INFO,
                   "wring " WRING_VERSION " (%s): %d device%s at %s%s%s%s, by %s; CollNet sums "
                   "%s; key %s",
                   table, own->n_devices, own->n_devices == 1 ? "" : "s", own->address,
                   interface[0] != '\0' ? " (" : "", interface, interface[0] != '\0' ? ")" : "",
                   own->providers, sums, own->key[0] != '\0' ? "of WRING_KEY" : "in each handle");
    for (int i = 0; i < own->n_devices; i++)
        wring_nccl_say(WRING_NCCL_LOG_INFO, "wring: device %d: %s, %d Mbit/s, %s", i,
                       own->devices[i].name, own->devices[i].speed_mbps, own->devices[i].about);
    if (dl_iterate_phdr(find_other_copy, &copy) != 0)
        wring_nccl_say(WRING_NCCL_LOG_WARN,
                       "wring: %s is loaded, too: the two do not share their links; name one of "
                       "them in NCCL_NET_PLUGIN",
                       copy);
}

static enum wring_status open_process(const char *table)
{
    char interface[64] = "";

    wring_nccl_own.log = (struct wring_log){log_wring_line, NULL, WRING_LOG_WARN};
    name_process();
    enum wring_status status = read_settings();
    if (status == WRING_OK)
        status = find_network(interface, sizeof(interface));
    if (status == WRING_OK)
        status = wring_nccl_coder_open();
    if (status == WRING_OK)
        log_introduction(table, interface);
    return status;
}

int wring_nccl_init(wring_nccl_log_fn log, const char *table, bool finalizes)
{
    struct wring_nccl_own *own = &wring_nccl_own;
    enum wring_status status = WRING_OK;

    pthread_mutex_lock(&own->mutex);
    own->say = log;
    if (own->users == 0 && own->lasting_users == 0)
        status = open_process(table);
    if (status == WRING_OK) {
        own->users += finalizes;
        own->lasting_users += !finalizes;
    } else {
        wring_nccl_say(WRING_NCCL_LOG_WARN,
                       "wring is not used: %s; NCCL_NET=wring keeps NCCL from going on without it",
                       wring_status_text(status));
    }
    pthread_mutex_unlock(&own->mutex);
    return wring_nccl_code_of(status);
}

/** As wring_nccl_own.look(). */
static void look_at_all(struct wring_nccl_watch *watch, int wake)
{
    wring_nccl_listens_serve(watch);
    wring_nccl_links_go_on(watch);
    watch->n = 0;
    wring_nccl_watch_add(watch, wake, POLLIN);
    wring_nccl_links_poll();
    wring_nccl_listens_watch(watch);
    wring_nccl_links_watch(watch);
}

/** As wring_nccl_own.leave(). */
static void leave_if_unused(void)
{
    struct wring_nccl_own *own = &wring_nccl_own;

    if (own->users > 0 ||
        (own->lasting_users > 0 && (wring_nccl_listens_are_open() || wring_nccl_links_are_used() ||
                                    wring_nccl_colls_are_open())))
        return;
    wring_nccl_watch_stop();
    wring_nccl_links_finish();
    wring_nccl_colls_finish();
    wring_nccl_listens_finish();
    if (own->lasting_users == 0)
        wring_nccl_coder_close();
    if (!wring_random_bytes(own->process, sizeof(own->process))) /* for handles from now on */
        own->lasting_users = 0;
}

int wring_nccl_finalize(void)
{
    struct wring_nccl_own *own = &wring_nccl_own;

    pthread_mutex_lock(&own->mutex);
    own->users -= own->users > 0;
    leave_if_unused();
    pthread_mutex_unlock(&own->mutex);
    return WRING_NCCL_SUCCESS;
}
