/* SPDX-License-Identifier: Apache-2.0 */
/* Why a job cannot begin, and in which words; no sockets here. */
#include "transport/bootstrap/rendezvous_host.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/bytes.h"

#define HINT_BYTES (WRING_RENDEZVOUS_ADDRESS + 64)

void wring_rendezvous_end(struct wring_rendezvous_verdict *verdict, enum wring_status status,
                          uint32_t rank, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    verdict->status = status;
    verdict->rank = rank;
    vsnprintf(verdict->text, sizeof(verdict->text), format, args);
    va_end(args);
}

void wring_rendezvous_read_claim(const uint8_t *hello, size_t bytes,
                                 struct wring_rendezvous_claim *out)
{
    bool whole = bytes == WRING_RENDEZVOUS_HELLO_BYTES;
    out->rank = whole ? wring_get_u32(hello) : UINT32_MAX;
    out->size = whole ? wring_get_u32(hello + 4) : 0;
}

void wring_rendezvous_judge(const struct wring_rendezvous_claim *claim, uint32_t size,
                            struct wring_rendezvous_verdict *out)
{
    if (claim->size != size)
        wring_rendezvous_end(out, WRING_ERR_MISMATCH, claim->rank,
                             "rank %" PRIu32 " (%s) says that the job has %" PRIu32
                             " ranks, rank 0 says %" PRIu32 ": set WRING_SIZE alike on all ranks",
                             claim->rank, claim->from, claim->size, size);
    else if (claim->rank == 0)
        wring_rendezvous_end(out, WRING_ERR_MISMATCH, 0,
                             "two processes joined as rank 0, here and from %s: give each its own "
                             "WRING_RANK",
                             claim->from);
    else if (claim->rank >= size)
        wring_rendezvous_end(out, WRING_ERR_MISMATCH, claim->rank,
                             "a process joined as rank %" PRIu32 " of %" PRIu32
                             ", from %s (WRING_RANK)",
                             claim->rank, size, claim->from);
    else if (claim->holder[0] != '\0')
        wring_rendezvous_end(out, WRING_ERR_MISMATCH, claim->rank,
                             "two processes joined as rank %" PRIu32
                             ", from %s and from %s: give each its own WRING_RANK",
                             claim->rank, claim->holder, claim->from);
}

const char *wring_rendezvous_missing(const struct wring_rendezvous_host *host,
                                     struct wring_rendezvous_names *out)
{
    const struct wring_rendezvous *rendezvous = host->rendezvous;
    for (uint32_t i = 1; i < rendezvous->base.size; i++)
        if (rendezvous->fds[i] < 0)
            wring_rendezvous_name(out, i);
    return wring_rendezvous_named(out);
}

void wring_rendezvous_give_up(struct wring_rendezvous_host *host)
{
    struct wring_rendezvous_names absent = {0};
    const char *names = wring_rendezvous_missing(host, &absent);
    char wrong_key[HINT_BYTES] = "", version[HINT_BYTES] = "", silence[HINT_BYTES] = "";
    char shortage[160], lacks[HINT_BYTES + 64] = "";
    const char *from;
    unsigned silent = wring_rendezvous_count_silent(host, &from);

    wring_rendezvous_name_shortage(host, shortage, sizeof(shortage));
    if (shortage[0] != '\0')
        snprintf(lacks, sizeof(lacks), "; rank 0 cannot take more: %s", shortage);
    if (host->wrong_key.n > 0)
        snprintf(wrong_key, sizeof(wrong_key),
                 "; someone from %s was refused for a wrong WRING_KEY", host->wrong_key.from);
    if (host->other_version.n > 0)
        snprintf(version, sizeof(version), "; someone from %s for another version of wring",
                 host->other_version.from);
    if (silent > 0)
        snprintf(silence, sizeof(silence), "; %u connections said nothing, the last from %s",
                 silent, from);
    wring_rendezvous_end(
        &host->verdict, WRING_ERR_PEER, absent.first,
        "%s did not join in time (WRING_JOIN_TIMEOUT): %" PRIu32 " of %" PRIu32 " are here%s%s%s%s",
        names, host->joined + 1, host->rendezvous->base.size, lacks, wrong_key, version, silence);
}
