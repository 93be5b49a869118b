/* SPDX-License-Identifier: Apache-2.0 */
/** Which providers this rank opens, and where they listen. */
#include <stdio.h>
#include <string.h>

#include "base/list.h"
#include "transport/control_tree.h"
#include "transport/fabric.h"
#include "transport/interface.h"
#include "transport/liveness.h"
#include "transport/providers/fault/fault.h"

#define WRING_MODULE "fabric"

static bool list_names(const char *list, const char *name)
{
    struct wring_list_item item;
    while (wring_list_next(&list, &item))
        if (wring_list_item_is(&item, name))
            return true;
    return false;
}

/** @param text  out, [bytes], all providers' names, as one would write them */
static void name_all(char *text, size_t bytes)
{
    size_t n = 0;
    text[0] = '\0';
    for (const struct wring_provider_ops *const *ops = wring_provider_list(); *ops != NULL; ops++)
        if (n < bytes)
            n += (size_t)snprintf(text + n, bytes - n, "%s%s", n > 0 ? ", " : "", (*ops)->name);
}

/** "auto", or names of providers that there are. The first that is none is told. */
static enum wring_status check_list(const struct wring_log *log, const char *list)
{
    char known[WRING_TEXT_MAX];
    struct wring_list_item item;

    name_all(known, sizeof(known));
    for (const char *rest = list; wring_list_next(&rest, &item);) {
        const struct wring_provider_ops *const *ops = wring_provider_list();
        while (*ops != NULL && !wring_list_item_is(&item, (*ops)->name))
            ops++;
        if (*ops != NULL)
            continue;
        if (item.length == 0)
            wring_error(log, "WRING_PROVIDER=%s: a name is empty; there are %s, or auto alone",
                        list, known);
        else
            wring_error(log, "WRING_PROVIDER=%s: no provider '%.*s'; there are %s, or auto alone",
                        list, (int)item.length, item.text, known);
        return WRING_ERR_INVALID;
    }
    return WRING_OK;
}

/**
 * Where network providers listen: at WRING_BIND, on WRING_IFACE, or where the rendezvous went.
 * @param address out, [WRING_INTERFACE_ADDRESS], filled if need be. Errors are logged.
 */
static enum wring_status choose_bind(const struct wring_fabric *fabric, const char *given,
                                     char *address, const char **out)
{
    const struct wring_config *config = fabric->config;
    *out = given[0] != '\0' ? given : NULL;
    if (config->iface[0] == '\0')
        return WRING_OK;
    if (config->bind[0] != '\0') {
        wring_error(fabric->log, "WRING_BIND=%s and WRING_IFACE=%s: set one of them", config->bind,
                    config->iface);
        return WRING_ERR_INVALID;
    }
    enum wring_status status = wring_interface_find(fabric->log, config->iface, given, address);
    if (status != WRING_OK)
        return status;
    if (config->key[0] == '\0' && strncmp(address, "127.", 4) != 0 && strcmp(address, "::1") != 0) {
        wring_error(fabric->log,
                    "WRING_IFACE=%s: without a key wring listens on loopback only: set the same "
                    "WRING_KEY or WRING_KEY_FILE on all ranks",
                    config->iface);
        return WRING_ERR_AUTH;
    }
    *out = address;
    return WRING_OK;
}

static enum wring_status open_device(struct wring_fabric *fabric,
                                     const struct wring_provider_ops *ops,
                                     const struct wring_fabric_params *params, const char *bind)
{
    struct wring_device device = {.name = ops->name};
    struct wring_provider_params provider_params = {
        .log = fabric->log,
        .config = fabric->config,
        .bind = bind,
        .rank = params->rank,
        .size = params->size,
    };
    memcpy(provider_params.secret, params->secret, WRING_SECRET_BYTES);

    enum wring_status status = ops->open(&provider_params, &device.provider);
    if (status != WRING_OK)
        return status;
    if (fabric->config->fault[0] != '\0') {
        struct wring_provider *inner = device.provider;
        status = wring_fault_wrap(fabric->config->fault, &provider_params, inner, &device.provider);
        if (status != WRING_OK) {
            inner->ops->close(inner);
            return status;
        }
    }
    device.provider->ops->capabilities(device.provider, &device.caps);
    status = device.provider->ops->listen(device.provider, device.address, &device.address_bytes);
    if (status != WRING_OK) {
        device.provider->ops->close(device.provider);
        return status;
    }
    fabric->devices[fabric->n_devices++] = device;
    return WRING_OK;
}

static void go_without(struct wring_fabric *fabric, const struct wring_provider_ops *ops,
                       const char *reason)
{
    snprintf(fabric->lacks, sizeof(fabric->lacks), "%s: %s", ops->name, reason);
}

/** "auto": take a provider that does well here, go without one that need not be. */
static enum wring_status try_device(struct wring_fabric *fabric,
                                    const struct wring_provider_ops *ops,
                                    const struct wring_fabric_params *params, const char *bind)
{
    bool optional = ops->suits != wring_suits_always;
    char reason[WRING_TEXT_MAX] = "";
    if (ops->probe(reason, sizeof(reason)) != WRING_OK ||
        ops->suits(fabric->config, reason, sizeof(reason)) != WRING_OK) {
        go_without(fabric, ops, reason);
        if (!optional)
            wring_warn(fabric->log, "this rank goes without %s: %s", ops->name, reason);
        return WRING_OK;
    }
    enum wring_status status = open_device(fabric, ops, params, bind);
    if (status == WRING_OK)
        fabric->devices[fabric->n_devices - 1].optional = optional;
    else if (optional)
        go_without(fabric, ops, wring_status_text(status));
    return optional ? WRING_OK : status;
}

static enum wring_status open_named(struct wring_fabric *fabric,
                                    const struct wring_provider_ops *ops,
                                    const struct wring_fabric_params *params, const char *bind)
{
    char reason[WRING_TEXT_MAX] = "";
    if (ops->probe(reason, sizeof(reason)) == WRING_OK)
        return open_device(fabric, ops, params, bind);
    wring_error(fabric->log, "provider %s cannot work here: %s", ops->name, reason);
    return WRING_ERR_UNSUPPORTED;
}

/** By the rendezvous' addresses, whatever providers are used. */
static enum wring_status open_tree(struct wring_fabric *fabric,
                                   const struct wring_fabric_params *params)
{
    struct wring_control_tree_params tree = {
        .config = fabric->config,
        .log = fabric->log,
        .rank = params->rank,
        .size = params->size,
        .bind = params->bind[0] != '\0' ? params->bind : NULL,
        .handler = {fabric, wring_liveness_told, wring_liveness_lost},
    };
    memcpy(tree.secret, params->secret, sizeof(tree.secret));
    memcpy(tree.job, params->job, sizeof(tree.job));
    return wring_control_tree_create(&tree, &fabric->tree);
}

enum wring_status wring_fabric_open(struct wring_fabric *fabric,
                                    const struct wring_fabric_params *params)
{
    bool automatic = strcmp(params->provider, "auto") == 0;
    char address[WRING_INTERFACE_ADDRESS];
    const char *bind;
    enum wring_status status = automatic ? WRING_OK : check_list(fabric->log, params->provider);
    if (status == WRING_OK)
        status = choose_bind(fabric, params->bind, address, &bind);

    for (const struct wring_provider_ops *const *ops = wring_provider_list();
         *ops != NULL && status == WRING_OK && fabric->n_devices < WRING_DEVICES_MAX; ops++) {
        if (automatic)
            status = try_device(fabric, *ops, params, bind);
        else if (list_names(params->provider, (*ops)->name))
            status = open_named(fabric, *ops, params, bind);
    }
    if (status == WRING_OK && params->size > 1)
        status = open_tree(fabric, params);
    return status;
}
