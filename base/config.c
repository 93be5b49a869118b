/* SPDX-License-Identifier: Apache-2.0 */
#include "base/config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/parse.h"

#define WRING_MODULE "config"

extern char **environ;

#define FIELD(name) offsetof(struct wring_config, name)
#define TEXT(bytes) WRING_CONFIG_STRING, NULL, 0, bytes
#define STRING TEXT(WRING_CONFIG_TEXT)
#define CHOICE(words) WRING_CONFIG_CHOICE, words, 0, WRING_CONFIG_TEXT
#define INTEGER(min, max) WRING_CONFIG_INTEGER, NULL, min, max
#define BYTES(min, max) WRING_CONFIG_BYTES, NULL, min, max
#define SECONDS(min_ns, max_ns) WRING_CONFIG_SECONDS, NULL, min_ns, max_ns
#define MS 1000000ll
#define S 1000000000ll

/* clang-format off */
static const struct wring_config_var vars[] = {
    /* name              default    unit     meaning                                                          type, range                       field */
    { "WRING_RANK",         "-1",      "",      "this process's rank; -1 takes the launcher's",                  INTEGER(-1, 65535),               FIELD(rank), false },
    { "WRING_SIZE",         "-1",      "ranks", "number of ranks; -1 takes the launcher's",                      INTEGER(-1, 65536),               FIELD(size), false },
    { "WRING_ROOT",         "",        "",      "host:port where rank 0 listens for the other ranks; several, separated by commas: ranks try each", TEXT(WRING_CONFIG_ROOT), FIELD(root), false },
    { "WRING_ROOT_FD",      "-1",      "",      "rank 0: inherited socket that listens already, used instead of a new one", INTEGER(-1, 1 << 20),             FIELD(root_fd), false },
    { "WRING_DOOR",         "",        "",      "address, or address:port, where this rank listens for newcomers to the job; empty: nowhere; docs/elastic.md", STRING,          FIELD(door), false },
    { "WRING_DOOR_FD",      "-1",      "",      "inherited socket that listens already, used instead of WRING_DOOR; ranks may share it", INTEGER(-1, 1 << 20), FIELD(door_fd), false },
    { "WRING_JOIN",         "",        "",      "host:port of a running job's rank, or several, separated by commas: join that job as a newcomer", TEXT(WRING_CONFIG_ROOT), FIELD(join), false },
    { "WRING_KEY",          "",        "",      "the job's key: a secret text that every rank must know",        STRING,                           FIELD(key), true },
    { "WRING_KEY_FILE",     "",        "",      "file that holds the job's key",                                 STRING,                           FIELD(key_file), false },
    { "WRING_NODE",         "",        "",      "name of the host that this rank counts as being on; empty: detected", STRING,                           FIELD(node), false },
    { "WRING_SITE",         "",        "",      "name of the place that this rank's host stands at: hierarchical sums are made within sites first, not within hosts, and a ring passes one site after the other; if no rank has one, sites are found by measuring; docs/wan.md", STRING, FIELD(site), false },
    { "WRING_LOCAL_SIZE",   "-1",      "ranks", "ranks on this host; -1: detected",                              INTEGER(-1, 65536),               FIELD(local_size), false },
    { "WRING_PROVIDER",     "auto",    "",      "transport providers that may be used, such as shm,tcp; auto: all that suit; see wring info", STRING,                           FIELD(provider), false },
    { "WRING_FAULT",        "",        "",      "emulate a worse network: rate=1gbit,delay=2ms,...; docs/faults.md", STRING,                           FIELD(fault), false },
    { "WRING_BIND",         "",        "",      "address that network providers listen on; empty: the one that reaches the root", STRING,          FIELD(bind), false },
    { "WRING_IFACE",        "",        "",      "interface of the network providers, instead of WRING_BIND: eth,ib by prefix, =eth0 exactly, ^docker all others", STRING,     FIELD(iface), false },
    { "WRING_PORTS",        "",        "",      "ports to listen on, as first-last; empty: any that is free",                 STRING,                           FIELD(ports), false },
    { "WRING_TCP_CHECKSUM", "off",     "",      "on protects each tcp frame with a CRC32C; all ranks need the same value", CHOICE("on|off"),                 FIELD(tcp_checksum), false },
    { "WRING_TCP_CONGESTION", "auto",  "",      "tcp's congestion control; auto: Reno instead of BBR for peers within a millisecond; system: the system's", CHOICE("auto|system"), FIELD(tcp_congestion), false },
    { "WRING_TCP_SOCKETS",  "auto",    "",      "sockets of a connection over tcp; auto: one, or up to 8 to a far peer if one socket's buffer holds less than the way; the rank that connects decides", CHOICE("auto|1|2|3|4|6|8|12|16"), FIELD(tcp_sockets), false },
    { "WRING_HUGEPAGES",    "thp",     "",      "large pages for wring's own buffers; thp: transparent ones; pool: those that the system has reserved", CHOICE("thp|pool|off"), FIELD(hugepages), false },
    { "WRING_VERBS_DEVICES", "",       "",      "RDMA devices to use, as dev[:port],...: mlx5 by prefix, =mlx5_0 exactly, ^mlx5_2 all others; empty: the best ones", STRING, FIELD(verbs_devices), false },
    { "WRING_VERBS_RAILS",  "4",       "",      "largest number of device ports that a process uses at once",    INTEGER(1, 8),                    FIELD(verbs_rails), false },
    { "WRING_VERBS_QPS",    "1",       "",      "queue pairs per connection and device port",                    INTEGER(1, 8),                    FIELD(verbs_qps), false },
    { "WRING_VERBS_GID_INDEX", "-1",   "",      "entry of the port's GID table; -1 chooses: the address bound to, else RoCE v2 over IPv4", INTEGER(-1, 255), FIELD(verbs_gid_index), false },
    { "WRING_VERBS_PKEY",   "0xffff",  "",      "partition key; the library looks up its index in the port's table", INTEGER(1, 65535),                FIELD(verbs_pkey), false },
    { "WRING_VERBS_SL",     "0",       "",      "service level of the InfiniBand fabric",                        INTEGER(0, 15),                   FIELD(verbs_sl), false },
    { "WRING_VERBS_TC",     "0",       "",      "traffic class: DSCP << 2 | ECN bits on RoCE v2",                INTEGER(0, 255),                  FIELD(verbs_tc), false },
    { "WRING_VERBS_MTU",    "0",       "bytes", "largest packet payload; 0: the port's; the smaller one of both sides counts", CHOICE("0|256|512|1024|2048|4096"), FIELD(verbs_mtu), false },
    { "WRING_VERBS_TIMEOUT", "17",     "",      "a packet without acknowledgement is sent again after 4.096 us << this value", INTEGER(1, 31),   FIELD(verbs_timeout), false },
    { "WRING_VERBS_RETRIES", "6",      "",      "how often a packet is sent again; at most 6, as devices take 7 for no limit", INTEGER(1, 6),                    FIELD(verbs_retries), false },
    { "WRING_VERBS_RNR_RETRIES", "6",  "",      "how often a packet is sent again to a peer that has no receive posted", INTEGER(1, 6),                    FIELD(verbs_rnr_retries), false },
    { "WRING_VERBS_STRIPE_BYTES", "64k", "bytes", "puts longer than this travel over all queue pairs of a connection at once", BYTES(128, 1 << 30),              FIELD(verbs_stripe_bytes), false },
    { "WRING_VERBS_INLINE_BYTES", "220", "bytes", "messages up to this size ride in the work request; fewer if the device allows fewer", BYTES(0, 1024), FIELD(verbs_inline_bytes), false },
    { "WRING_VERBS_RELAXED_ORDERING", "auto", "", "let PCIe reorder writes into buckets; docs/verbs.md says why that is safe", CHOICE("auto|on|off"), FIELD(verbs_relaxed_ordering), false },
    { "WRING_VERBS_PEERMEM", "auto",   "",      "register CUDA memory by its address, for NCCL, where it is no dma-buf; auto: if nvidia_peermem or nv_peer_mem is loaded", CHOICE("auto|on|off"), FIELD(verbs_peermem), false },
    { "WRING_VERBS_API",    "auto",    "",      "calls that post and poll; new: ibv_wr_* and extended queues; classic: ibv_post_send; auto: new if the device can", CHOICE("auto|new|classic"), FIELD(verbs_api), false },
    { "WRING_VERBS_RECOVER", "10",     "s",     "how long a connection tries to reconnect after all its queue pairs have failed; 0: never", SECONDS(0, 3600 * S), FIELD(verbs_recover_ns), false },
    { "WRING_VERBS_REVIVE", "5",       "s",     "pause before a failed queue pair is tried again while others work; it doubles after each failed try; 0: never tried", SECONDS(0, 3600 * S), FIELD(verbs_revive_ns), false },
    { "WRING_VERBS_CACHE_BYTES", "1g", "bytes", "most memory that stays registered for its next use; 0: none",   BYTES(0, 1ll << 40),              FIELD(verbs_cache_bytes), false },
    { "WRING_CHUNK_BYTES",  "256k",    "bytes", "size of one piece on its way; if encoded, it stands for up to 4 times as many bytes; if unset, WRING_PLAN=auto may choose", BYTES(4096, 1 << 26),             FIELD(chunk_bytes), false },
    { "WRING_WINDOW",       "4",       "slots", "pieces that a peer may send before it needs a credit, per bucket; more if pieces are small, and, if unset, as many as a long way holds", BYTES(2, 1024),                   FIELD(window), false },
    { "WRING_SLOT_BYTES",   "1g",      "bytes", "most memory for the slots of all committed buckets; their windows shrink until it suffices", BYTES(4096, 1ll << 40),           FIELD(slot_bytes), false },
    { "WRING_POOL_SLOTS",   "64",      "slots", "slots of WRING_CHUNK_BYTES for pieces of immediate calls, shared by all groups; further pieces wait at their senders", INTEGER(1, 8192),    FIELD(pool_slots), false },
    { "WRING_FLAT_BYTES",   "8k",      "bytes", "largest uncompressed sum that is sent in one hop; 8 times as much for registered memory that all members map, and for two ranks over a network; 64 times for two ranks over tcp", BYTES(0, 1 << 16),                FIELD(flat_bytes), false },
    { "WRING_EAGER_BYTES",  "8k",      "bytes", "messages (wring_send) up to this size leave at once; larger ones wait for their receive", BYTES(0, 8192), FIELD(eager_bytes), false },
    { "WRING_UNEXPECTED_BYTES", "16m", "bytes", "most memory for messages that no receive waits for yet; each peer may fill 64 KiB in any case", BYTES(0, 1ll << 40), FIELD(unexpected_bytes), false },
    { "WRING_CMA",          "auto",    "",      "auto: read large messages out of other processes of this host (process_vm_readv) if the kernel allows it", CHOICE("auto|off"), FIELD(cma), false },
    { "WRING_JOIN_TIMEOUT", "60",      "s",     "how long to wait for all ranks to join or to agree",            SECONDS(10 * MS, 86400 * S),      FIELD(join_timeout_ns), false },
    { "WRING_HEARTBEAT",    "1",       "s",     "how often a rank gives a sign of life to a peer that hears nothing else from it", SECONDS(1 * MS, 3600 * S),        FIELD(heartbeat_ns), false },
    { "WRING_PEER_TIMEOUT", "30",      "s",     "a peer that gives no sign of life for this long is lost",       SECONDS(10 * MS, 86400 * S),      FIELD(peer_timeout_ns), false },
    { "WRING_TIMEOUT",      "0",       "s",     "longest that a step may take; 0: no limit, so a slow peer is no error", SECONDS(0, 86400 * S),            FIELD(timeout_ns), false },
    { "WRING_SPIN",         "20us",    "s",     "how long a waiting thread polls before it sleeps; a waiting caller then yields its core between polls for 4 times as long", SECONDS(0, 1 * S),                FIELD(spin_ns), false },
    { "WRING_PROGRESS",     "thread",  "",      "threads that make progress; thread: one of the session's, and callers that wait; caller: callers alone", CHOICE("thread|caller"),          FIELD(progress), false },
    { "WRING_EXECUTOR",     "inline",  "",      "where codecs run: inline, or pool[:cores=LIST|N] on pinned cores; if unset, WRING_PLAN=auto may choose", STRING,                           FIELD(executor), false },
    { "WRING_CPU",          "best",    "",      "highest kernel tier to use; if the processor lacks it, the next lower one that it has", CHOICE("scalar|avx2|avx512|vbmi2|neon|best"), FIELD(cpu), false },
    { "WRING_CODEC_RULES",  "",        "",      "codecs of buckets that name none, by name, elements and shape, as '*embed*=bf16; min=4096; 1d=none; *=int8+ef', and of sums of MPI and of CollNet, by operation; docs/which-codec.md", TEXT(WRING_CONFIG_RULES), FIELD(codec_rules), false },
    { "WRING_BYPASS",       "auto",    "",      "auto: commit times buckets with and without their codecs, and disables codecs that save no time; never: all codecs run; always: none runs", CHOICE("auto|never|always"), FIELD(bypass), false },
    { "WRING_SCHEME",       "auto",    "",      "scheme of buckets that name none; immediate calls ignore it; hierarchical: each node sums first; ring: raw sums go from rank to rank", CHOICE("auto|divisible|indivisible|hierarchical|hierarchical-divisible|hierarchical-indivisible|ring"), FIELD(scheme), false },
    { "WRING_PLAN",         "",        "",      "file of a plan to execute, made by wring plan, whose codecs replace the buckets' own; auto: the job measures, plans and compares while it runs", STRING, FIELD(plan), false },
    { "WRING_PLAN_CODECS",  "",        "",      "with WRING_PLAN=auto: codecs that any sum of f32, f16 or bf16 may take, such as bf16,onebit+ef, besides none and the bucket's own", STRING, FIELD(plan_codecs), false },
    { "WRING_PLAN_SECONDS", "2",       "s",     "with WRING_PLAN=auto: about how long collectives are measured if the cache has no profile; each further number of cores and size of pieces adds about an eighth of it", SECONDS(10 * MS, 600 * S), FIELD(plan_seconds_ns), false },
    { "WRING_PLAN_EVERY",   "10",      "s",     "with WRING_PLAN=auto: how often ranks check that iterations still take as long as before", SECONDS(1 * MS, 86400 * S), FIELD(plan_every_ns), false },
    { "WRING_PLAN_SAVE",    "",        "",      "with WRING_PLAN=auto: file for the plan that is kept, for WRING_PLAN of other jobs", STRING, FIELD(plan_save), false },
    { "WRING_RECORD",       "",        "",      "file to which rank 0 writes a trace of the job's iterations, for wring plan, simulate and replay", STRING, FIELD(record), false },
    { "WRING_CACHE",        "",        "",      "folder where WRING_PLAN=auto keeps profiles; empty: wring below XDG_CACHE_HOME or ~/.cache; off: none are kept", STRING, FIELD(cache), false },
    { "WRING_ROLLBACK",     "off",     "",      "on keeps residuals as they were before each step, so that they can be saved after a failure", CHOICE("off|on"),           FIELD(rollback), false },
    { "WRING_STATS_EVERY",  "100",     "steps", "once in so many steps a bucket decodes an encoded piece again, to measure the error; 0: never", INTEGER(0, 1 << 30),            FIELD(stats_every), false },
    { "WRING_MPI_CODEC",    "",        "",      "libwring_mpi.so: codec of float sums that no rule names, as bf16 or onebit:block=128; empty: exact", STRING, FIELD(mpi_codec), false },
    { "WRING_MPI_CODEC_MIN", "256k",   "bytes", "libwring_mpi.so: least bytes of a sum that takes WRING_MPI_CODEC",                BYTES(1, 1ll << 40),              FIELD(mpi_codec_min), false },
    { "WRING_NCCL_CODEC",   "",        "",      "libnccl-net-wring.so: codec of CollNet's float sums that no rule names, as bf16 or onebit:block=128; empty: exact", STRING, FIELD(nccl_codec), false },
    { "WRING_NCCL_CODEC_MIN", "256k",  "bytes", "libnccl-net-wring.so: least bytes of a sum that takes WRING_NCCL_CODEC",           BYTES(1, 1ll << 40),              FIELD(nccl_codec_min), false },
    { "WRING_NCCL_DEVICES", "each",    "",      "libnccl-net-wring.so: each shows NCCL every port of an RDMA device as a device; one shows it one, which spreads over the ports", CHOICE("each|one"), FIELD(nccl_devices), false },
    { "WRING_NCCL_LOSSLESS", "0",      "cores", "libnccl-net-wring.so: cores pinned to code large messages without a loss, on connections where that proves faster; 0: no message is coded", INTEGER(0, 64), FIELD(nccl_lossless), false },
    { "WRING_NCCL_LOSSLESS_MIN", "256k", "bytes", "libnccl-net-wring.so: messages of fewer bytes are not coded", BYTES(4096, 1ll << 24),           FIELD(nccl_lossless_min), false },
    { "WRING_STATS",        "0",       "",      "libwring_mpi.so: 1 prints at the end which calls it served, by which codecs, and which it left to the MPI and why", INTEGER(0, 1), FIELD(stats), false },
    { "WRING_LOG",          "warn",    "",      "lines of this level and above are logged: error, warn, info or debug", CHOICE("error|warn|info|debug"),  FIELD(log_level), false },
    { "WRING_TRACE",        "",        "",      "file for a record of the session, which Perfetto shows", STRING,                          FIELD(trace), false },
    { "WRING_TRACES",       "",        "",      "folder in which plan, simulate and replay find traces by name; empty: those that wring ships", STRING, FIELD(traces), false },
};
/* clang-format on */

/** Variables that drop-ins read themselves: docs/pytorch.md. */
static const char *const of_dropins[] = {
    "WRING_LIBRARY",     "WRING_INCLUDE",      "WRING_TORCH_REPLACE",
    "WRING_TORCH_CACHE", "WRING_TORCH_NATIVE",
};

const struct wring_config_var *wring_config_vars(size_t *count)
{
    *count = sizeof(vars) / sizeof(vars[0]);
    return vars;
}

static const struct wring_config_var *find_var(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof(vars) / sizeof(vars[0]); i++)
        if (strncmp(vars[i].name, name, length) == 0 && vars[i].name[length] == '\0')
            return &vars[i];
    return NULL;
}

static bool is_of_dropin(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof(of_dropins) / sizeof(of_dropins[0]); i++)
        if (strlen(of_dropins[i]) == length && memcmp(of_dropins[i], name, length) == 0)
            return true;
    return false;
}

static bool is_choice(const char *choices, const char *value)
{
    size_t length = strlen(value);
    for (const char *word = choices; word != NULL && length > 0;) {
        const char *bar = strchr(word, '|');
        size_t word_length = bar != NULL ? (size_t)(bar - word) : strlen(word);
        if (word_length == length && memcmp(word, value, length) == 0)
            return true;
        word = bar != NULL ? bar + 1 : NULL;
    }
    return false;
}

/** The factor that a suffix stands for in this type; 0 where there is no such suffix. */
static double suffix_factor(enum wring_config_type type, const char *suffix)
{
    static const struct {
        enum wring_config_type type;
        const char *suffix;
        double factor;
    } known[] = {
        {WRING_CONFIG_BYTES, "k", 0x1p10}, {WRING_CONFIG_BYTES, "m", 0x1p20},
        {WRING_CONFIG_BYTES, "g", 0x1p30}, {WRING_CONFIG_BYTES, "", 1},
        {WRING_CONFIG_SECONDS, "us", 1e3}, {WRING_CONFIG_SECONDS, "ms", 1e6},
        {WRING_CONFIG_SECONDS, "s", 1e9},  {WRING_CONFIG_SECONDS, "", 1e9},
        {WRING_CONFIG_INTEGER, "", 1},
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (known[i].type == type && wring_number_is_unit(suffix, known[i].suffix))
            return known[i].factor;
    return 0;
}

/** number / 10^digits in full, without zeros at the end. @param text out, [bytes] */
static void show_scaled(int64_t number, unsigned digits, char *text, size_t bytes)
{
    uint64_t whole = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    uint64_t scale = 1;
    char fraction[24] = "";

    for (unsigned i = 0; i < digits; i++)
        scale *= 10;
    if (whole % scale != 0) {
        int n = snprintf(fraction, sizeof(fraction), ".%0*" PRIu64, (int)digits, whole % scale);
        while (fraction[n - 1] == '0')
            fraction[--n] = '\0';
    }
    snprintf(text, bytes, "%s%" PRIu64 "%s", number < 0 ? "-" : "", whole / scale, fraction);
}

/** A value as it may be written: a plain number, nanoseconds as decimal seconds. */
static void show_number(enum wring_config_type type, int64_t number, char *text, size_t bytes)
{
    if (type == WRING_CONFIG_SECONDS)
        show_scaled(number, 9, text, bytes);
    else
        snprintf(text, bytes, "%" PRId64, number);
}

static enum wring_status set_number(struct wring_config *config, const struct wring_log *log,
                                    const struct wring_config_var *var, const char *value)
{
    double number;
    const char *suffix;
    double factor = 0;

    if (wring_number_parse(value, &number, &suffix))
        factor = suffix_factor(var->type, suffix);
    number *= factor;
    if (factor == 0 || number < (double)var->min || number > (double)var->max ||
        (var->type != WRING_CONFIG_SECONDS && number != (double)(int64_t)number)) {
        char min[32], max[32];
        show_number(var->type, var->min, min, sizeof(min));
        show_number(var->type, var->max, max, sizeof(max));
        wring_error(log, "%s=%s: needs a number from %s to %s%s%s", var->name, value, min, max,
                    var->unit[0] != '\0' ? " " : "", var->unit);
        return WRING_ERR_INVALID;
    }
    /* times become whole ns: the nearest, since 65us written as 6.5e-05 s is a hair less */
    int64_t result = (int64_t)(var->type == WRING_CONFIG_SECONDS ? number + 0.5 : number);
    memcpy((char *)config + var->offset, &result, sizeof(result));
    return WRING_OK;
}

/** WRING_CPU is a ceiling: say so where this processor has nothing at that height. */
static void warn_of_lower_tier(const struct wring_log *log, const char *value)
{
    enum wring_cpu_tier asked, used;
    if (!wring_cpu_tier_parse(value, &asked) || wring_cpu_has(asked))
        return;
    for (used = asked; !wring_cpu_has(used);)
        used--; /* the scalar tier is everywhere */
    wring_warn(log, "WRING_CPU=%s: this processor has no such kernels; %s ones run instead", value,
               wring_cpu_tier_name(used));
}

static enum wring_status set_text(struct wring_config *config, const struct wring_log *log,
                                  const struct wring_config_var *var, const char *value)
{
    if (var->type == WRING_CONFIG_CHOICE && !is_choice(var->choices, value)) {
        wring_error(log, "%s=%s: needs one of %s", var->name, value, var->choices);
        return WRING_ERR_INVALID;
    }
    if (var->offset == FIELD(cpu))
        warn_of_lower_tier(log, value);
    size_t length = strlen(value);
    if (length >= (size_t)var->max) {
        wring_error(log, "%s: longer than %" PRId64 " bytes", var->name, var->max - 1);
        return WRING_ERR_INVALID;
    }
    memcpy((char *)config + var->offset, value, length + 1);
    return WRING_OK;
}

_Static_assert(sizeof(vars) / sizeof(vars[0]) <= 128, "a bit for each");

static void mark_given(struct wring_config *config, const struct wring_config_var *var)
{
    size_t i = (size_t)(var - vars);
    config->given[i / 64] |= UINT64_C(1) << i % 64;
}

bool wring_config_given(const struct wring_config *config, const char *name)
{
    const struct wring_config_var *var = find_var(name, strlen(name));
    size_t i = var != NULL ? (size_t)(var - vars) : 0;
    return var != NULL && (config->given[i / 64] >> i % 64 & 1) != 0;
}

static enum wring_status set_var(struct wring_config *config, const struct wring_log *log,
                                 const struct wring_config_var *var, const char *value)
{
    mark_given(config, var);
    switch (var->type) {
    case WRING_CONFIG_STRING:
    case WRING_CONFIG_CHOICE:
        return set_text(config, log, var, value);
    case WRING_CONFIG_INTEGER:
    case WRING_CONFIG_BYTES:
    case WRING_CONFIG_SECONDS:
        return set_number(config, log, var, value);
    }
    return WRING_ERR_INVALID;
}

enum wring_status wring_config_set(struct wring_config *config, const struct wring_log *log,
                                   const char *name, const char *value)
{
    const struct wring_config_var *var = find_var(name, strlen(name));
    if (var == NULL) {
        wring_error(log, "%s: no such variable; wring info --config lists them", name);
        return WRING_ERR_INVALID;
    }
    return set_var(config, log, var, value);
}

enum wring_status wring_config_defaults(struct wring_config *config, const struct wring_log *log)
{
    memset(config, 0, sizeof(*config));
    for (size_t i = 0; i < sizeof(vars) / sizeof(vars[0]); i++) {
        enum wring_status status = set_var(config, log, &vars[i], vars[i].fallback);
        if (status != WRING_OK)
            return status;
    }
    memset(config->given, 0, sizeof(config->given));
    return WRING_OK;
}

enum wring_status wring_config_load(struct wring_config *config, const struct wring_log *log)
{
    enum wring_status failed = wring_config_defaults(config, log);
    if (failed != WRING_OK)
        return failed;
    for (char **entry = environ; *entry != NULL; entry++) {
        if (strncmp(*entry, "WRING_", 6) != 0)
            continue;
        const char *equals = strchr(*entry, '=');
        if (equals == NULL)
            continue;
        int length = (int)(equals - *entry);
        if (strncmp(*entry, "WRING_TEST_", 11) == 0)
            continue; /* for tests of this tree, which set it for all programs they start */
        if (is_of_dropin(*entry, (size_t)length))
            continue;
        const struct wring_config_var *var = find_var(*entry, (size_t)length);
        if (var == NULL) {
            wring_warn(log, "%.*s is not a variable of wring; wring info --config lists them",
                       length, *entry);
            continue;
        }
        enum wring_status status = set_var(config, log, var, equals + 1);
        if (status != WRING_OK)
            return status;
    }
    return WRING_OK;
}

void wring_config_show(const struct wring_config *config, const struct wring_config_var *var,
                       char *text, size_t bytes)
{
    const char *field = (const char *)config + var->offset;
    int64_t number;

    switch (var->type) {
    case WRING_CONFIG_STRING:
    case WRING_CONFIG_CHOICE:
        snprintf(text, bytes, "%s", var->secret && field[0] != '\0' ? "(set)" : field);
        return;
    case WRING_CONFIG_INTEGER:
    case WRING_CONFIG_BYTES:
    case WRING_CONFIG_SECONDS:
        memcpy(&number, field, sizeof(number));
        show_number(var->type, number, text, bytes);
        return;
    }
}

enum wring_log_level wring_config_log_level(const struct wring_config *config)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    for (int level = WRING_LOG_ERROR; level <= WRING_LOG_DEBUG; level++)
        if (strcmp(config->log_level, names[level]) == 0)
            return (enum wring_log_level)level;
    return WRING_LOG_WARN;
}

const char *wring_config_foreign(const char *name)
{
    return getenv(name);
}
