/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The 128 bytes by which others find what we listen at.
 *
 *      0  u32  "WNCL"            16  [16]  process
 *      4  u16  format            32  u64   listen
 *      6  u16  wire version      40  [16]  secret
 *      8  u32  FNV-1a of 12..128 56  [48]  root, as text
 *     12  u32  see PURPOSE      104  [24]  release, as text
 */
#include "dropin/nccl/nccl_own.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "transport/auth.h"

#define MAGIC 0x4c434e57u /* "WNCL" */
#define FORMAT 4u
/* Word 12: bits 0..7 purpose, 8 keyed, 16..23 device, 24..31 number of devices. */
#define PURPOSE 0xffu
#define KEYED 0x100u
#define DEVICE_SHIFT 16
#define DEVICES_SHIFT 24
#define CHECKED 12 /* what the sum covers begins there */
#define RELEASE 24

static uint32_t handle_checksum(const uint8_t *bytes)
{
    uint32_t sum = 2166136261u;
    for (size_t i = CHECKED; i < WRING_NCCL_HANDLE_BYTES; i++)
        sum = (sum ^ bytes[i]) * 16777619u;
    return sum;
}

void wring_nccl_handle_write(const struct wring_nccl_handle *handle, uint8_t *out)
{
    memset(out, 0, WRING_NCCL_HANDLE_BYTES);
    wring_put_u32(out, MAGIC);
    wring_put_u32(out + 4, FORMAT | (uint32_t)WRING_WIRE_VERSION << 16);
    wring_put_u32(out + 12, handle->purpose | (handle->keyed ? KEYED : 0) |
                                (uint32_t)handle->device << DEVICE_SHIFT |
                                (uint32_t)handle->n_devices << DEVICES_SHIFT);
    memcpy(out + 16, handle->process, WRING_NCCL_PROCESS);
    wring_put_u64(out + 32, handle->listen);
    memcpy(out + 40, handle->secret, WRING_NCCL_SECRET);
    memcpy(out + 56, handle->root, WRING_NCCL_ROOT);
    snprintf((char *)out + 104, RELEASE, "%s", WRING_VERSION);
    wring_put_u32(out + 8, handle_checksum(out));
}

static int refuse_handle(const char *what)
{
    wring_nccl_say(
        WRING_NCCL_LOG_WARN,
        "wring: a handle that %s: all processes of the job need this plugin, and pass on "
        "handles as they are",
        what);
    return WRING_NCCL_INVALID_ARGUMENT;
}

static int refuse_version(const uint8_t *bytes)
{
    char release[RELEASE];

    memcpy(release, bytes + 104, sizeof(release));
    release[sizeof(release) - 1] = '\0';
    wring_text_clean(release);
    wring_nccl_say(WRING_NCCL_LOG_WARN,
                   "wring: the peer's plugin is wring %s, ours is " WRING_VERSION
                   ", and they do not understand each other: install one release on all hosts",
                   release);
    return WRING_NCCL_INVALID_USAGE;
}

/** NCCL pairs devices by number, and has no exchange before the first connection. */
static int refuse_count(const struct wring_nccl_handle *handle, int rank)
{
    const struct wring_nccl_own *own = &wring_nccl_own;
    char who[WRING_NCCL_ROOT + 32], names[256] = "";

    snprintf(who, sizeof(who), rank >= 0 ? "%s (rank %d)" : "%s", handle->root, rank);
    for (int i = 0; i < own->n_devices; i++) {
        size_t at = strlen(names);
        snprintf(names + at, sizeof(names) - at, "%s%s", i > 0 ? ", " : "", own->devices[i].name);
    }
    wring_nccl_say(WRING_NCCL_LOG_WARN,
                   "wring: %d devices here (%s), and %u at %s: let WRING_VERBS_DEVICES or "
                   "NCCL_IB_HCA name as many on all hosts, or set WRING_NCCL_DEVICES=one on all",
                   own->n_devices, names, handle->n_devices, who);
    return WRING_NCCL_INVALID_USAGE;
}

int wring_nccl_handle_read(const uint8_t *bytes, enum wring_nccl_purpose purpose, int rank,
                           struct wring_nccl_handle *out)
{
    struct wring_nccl_handle handle = {0};

    if (bytes == NULL || wring_get_u32(bytes) != MAGIC)
        return refuse_handle("is not wring's");
    if (wring_get_u32(bytes + 4) != (FORMAT | (uint32_t)WRING_WIRE_VERSION << 16))
        return refuse_version(bytes);
    if (wring_get_u32(bytes + 8) != handle_checksum(bytes))
        return refuse_handle("was damaged on its way");
    uint32_t purposes = wring_get_u32(bytes + 12);
    handle.purpose = purposes & PURPOSE;
    handle.keyed = (purposes & KEYED) != 0;
    handle.device = (uint8_t)(purposes >> DEVICE_SHIFT);
    handle.n_devices = (uint8_t)(purposes >> DEVICES_SHIFT);
    memcpy(handle.process, bytes + 16, WRING_NCCL_PROCESS);
    handle.listen = wring_get_u64(bytes + 32);
    memcpy(handle.secret, bytes + 40, WRING_NCCL_SECRET);
    memcpy(handle.root, bytes + 56, WRING_NCCL_ROOT);
    if (handle.root[WRING_NCCL_ROOT - 1] != '\0')
        return refuse_handle("has no address");
    wring_text_clean(handle.root);
    if (handle.purpose != (uint32_t)purpose)
        return refuse_handle(purpose == WRING_NCCL_MESSAGES ? "is of CollNet's listen()"
                                                            : "is not of CollNet's listen()");
    if (handle.keyed != (wring_nccl_own.key[0] != '\0')) {
        wring_nccl_say(WRING_NCCL_LOG_WARN,
                       "wring: WRING_KEY is set %s and not %s: set the same on all hosts, or on "
                       "none",
                       handle.keyed ? "at the peer" : "here",
                       handle.keyed ? "here" : "at the peer");
        return WRING_NCCL_INVALID_USAGE;
    }
    if (handle.n_devices != wring_nccl_own.n_devices)
        return refuse_count(&handle, rank);
    if (handle.device >= handle.n_devices)
        return refuse_handle("names no device");
    *out = handle;
    return WRING_NCCL_SUCCESS;
}

void wring_nccl_key_of(const struct wring_nccl_handle *handle, char *out)
{
    if (handle->keyed) {
        memcpy(out, wring_nccl_own.key, WRING_CONFIG_TEXT);
        return;
    }
    for (size_t i = 0; i < WRING_NCCL_SECRET; i++)
        snprintf(out + 2 * i, 3, "%02x", handle->secret[i]);
}
