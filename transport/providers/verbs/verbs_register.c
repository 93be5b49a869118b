/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/providers/verbs/verbs_register.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/config.h"
#include "base/log.h"

#define WRING_MODULE "verbs"

static bool wants_relaxed(const struct verbs_memory_params *params)
{
    const char *wish = params->config != NULL ? params->config->verbs_relaxed_ordering : "auto";
    bool can = params->library->reg_mr_iova2 != NULL;
    if (strcmp(wish, "on") == 0 && !can)
        wring_warn(params->log, "WRING_VERBS_RELAXED_ORDERING=on: this libibverbs does not know it "
                                "(rdma-core before 28); writes stay in order");
    return can && strcmp(wish, "off") != 0;
}

void wring_verbs_registrar_init(struct verbs_registrar *registrar,
                                const struct verbs_memory_params *params)
{
    *registrar = (struct verbs_registrar){.params = *params, .relaxed = wants_relaxed(params)};
}

/** What a limit on locked memory has to do with it. @param text out, [bytes] */
static void explain_limit(const struct verbs_registrar *registrar, uint64_t need, char *text,
                          size_t bytes)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
        snprintf(text, bytes,
                 "locked memory is not limited (ulimit -l): the system or the device "
                 "is out of memory");
        return;
    }
    snprintf(text, bytes,
             "this process may lock %" PRIu64 " bytes (ulimit -l %" PRIu64 "); wring has %" PRIu64
             " registered and needs %" PRIu64 " more, counted once per device. Raise the limit: "
             "ulimit -l unlimited, memlock in limits.conf, LimitMEMLOCK= of a service, --ulimit "
             "memlock of a container",
             (uint64_t)limit.rlim_cur, (uint64_t)limit.rlim_cur / 1024, registrar->bytes, need);
}

enum wring_status wring_verbs_register_refused(const struct verbs_registrar *registrar,
                                               const struct verbs_pin *pin, unsigned rail,
                                               enum wring_memory_kind kind, int error)
{
    const struct wring_log *log = registrar->params.log;
    const char *device = registrar->params.rails[rail].device;
    size_t bytes = pin->bytes;
    char limit[384];
    if (error == ENOMEM || error == EAGAIN) {
        explain_limit(registrar, (uint64_t)bytes * (registrar->params.n_rails - rail), limit,
                      sizeof(limit));
        wring_error(log, "cannot register %zu bytes with %s: %s; %s", bytes, device,
                    strerrordesc_np(error), limit);
        return WRING_ERR_NO_MEMORY;
    }
    bool dmabuf = kind == WRING_MEMORY_DEVICE;
    wring_error(log, "cannot register %zu bytes%s with %s: %s", bytes,
                dmabuf ? " of a dma-buf" : "", device, strerrordesc_np(error));
    if (error == EFAULT || (dmabuf && error == EBADF))
        return WRING_ERR_INVALID; /* nothing is mapped there, or the descriptor is none */
    return dmabuf && (error == EOPNOTSUPP || error == EPROTONOSUPPORT) ? WRING_ERR_UNSUPPORTED
                                                                       : WRING_ERR_DEVICE;
}

static struct ibv_mr *register_one(const struct verbs_registrar *registrar, unsigned rail,
                                   const struct verbs_pin *pin, const struct wring_memory *what,
                                   enum verbs_pin_use use)
{
    const struct verbs_library *library = registrar->params.library;
    struct ibv_pd *pd = registrar->params.rails[rail].pd;
    int access = use == VERBS_PIN_SOURCE ? 0 : IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    if (use == VERBS_PIN_TARGET && registrar->relaxed)
        access |= IBV_ACCESS_RELAXED_ORDERING;

    if (what->kind == WRING_MEMORY_DEVICE)
        return library->reg_dmabuf_mr(pd, what->fd_offset, pin->bytes, (uintptr_t)pin->base,
                                      what->fd, access);
    if ((access & IBV_ACCESS_RELAXED_ORDERING) != 0)
        return library->reg_mr_iova2(pd, pin->base, pin->bytes, (uintptr_t)pin->base,
                                     (unsigned)access);
    return library->reg_mr(pd, pin->base, pin->bytes, access);
}

/** A device, or the kernel, that refuses the flag gets its registrations without it from then on.
 */
static bool give_up_relaxed(struct verbs_registrar *registrar, unsigned rail,
                            enum verbs_pin_use use, int error)
{
    if (use != VERBS_PIN_TARGET || !registrar->relaxed || (error != EINVAL && error != EOPNOTSUPP))
        return false;
    registrar->relaxed = false;
    wring_info(registrar->params.log,
               "%s refuses relaxed ordering, or the memory: writes stay in order",
               registrar->params.rails[rail].device);
    return true;
}

int wring_verbs_register(struct verbs_registrar *registrar, struct verbs_pin *pin,
                         const struct wring_memory *what, enum verbs_pin_use use, unsigned *rail)
{
    for (unsigned i = 0; i < registrar->params.n_rails; i++) {
        if (pin->mrs[i] != NULL)
            continue; /* of a first try */
        errno = 0;
        pin->mrs[i] = register_one(registrar, i, pin, what, use);
        if (pin->mrs[i] == NULL && give_up_relaxed(registrar, i, use, errno))
            pin->mrs[i] = register_one(registrar, i, pin, what, use);
        if (pin->mrs[i] == NULL) {
            *rail = i;
            return errno != 0 ? errno : EIO;
        }
        registrar->made++;
        registrar->bytes += pin->bytes;
    }
    return 0;
}

void wring_verbs_deregister(struct verbs_registrar *registrar, struct verbs_pin *pin)
{
    for (unsigned i = 0; i < registrar->params.n_rails; i++)
        if (pin->mrs[i] != NULL) {
            registrar->params.library->dereg_mr(pin->mrs[i]);
            pin->mrs[i] = NULL;
            registrar->bytes -= pin->bytes;
        }
}
