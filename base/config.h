/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The one table of WRING_ variables. getenv is called here and nowhere else.
 *
 * Objects are used by one thread at a time; a loaded config is read-only and may be shared.
 */
#ifndef WRING_BASE_CONFIG_H
#define WRING_BASE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include <wring/status.h>

#define WRING_CONFIG_TEXT 256
#define WRING_CONFIG_ROOT 1024  /* a host may have many addresses */
#define WRING_CONFIG_RULES 1024 /* a model may have many layers */

struct wring_config {
    /* who this rank is */
    int64_t rank; /* -1: ask the launcher's variables */
    int64_t size; /* -1: likewise */
    char root[WRING_CONFIG_ROOT];
    int64_t root_fd;
    char door[WRING_CONFIG_TEXT];
    int64_t door_fd;
    char join[WRING_CONFIG_ROOT];
    char key[WRING_CONFIG_TEXT];
    char key_file[WRING_CONFIG_TEXT];
    char node[WRING_CONFIG_TEXT];
    char site[WRING_CONFIG_TEXT];
    int64_t local_size;

    /* transport */
    char provider[WRING_CONFIG_TEXT];
    char fault[WRING_CONFIG_TEXT];
    char bind[WRING_CONFIG_TEXT];
    char iface[WRING_CONFIG_TEXT];
    char ports[WRING_CONFIG_TEXT];
    char tcp_checksum[WRING_CONFIG_TEXT];
    char tcp_congestion[WRING_CONFIG_TEXT];
    char tcp_sockets[WRING_CONFIG_TEXT];
    char hugepages[WRING_CONFIG_TEXT];
    uint64_t chunk_bytes;
    uint64_t window;
    uint64_t slot_bytes;
    int64_t pool_slots;
    uint64_t flat_bytes;
    uint64_t eager_bytes;
    uint64_t unexpected_bytes;
    char cma[WRING_CONFIG_TEXT];

    /* the verbs provider */
    char verbs_devices[WRING_CONFIG_TEXT];
    int64_t verbs_rails;
    int64_t verbs_qps;       /* queue pairs per connection and rail */
    int64_t verbs_gid_index; /* -1: choose */
    int64_t verbs_pkey;
    int64_t verbs_sl;
    int64_t verbs_tc;
    char verbs_mtu[WRING_CONFIG_TEXT]; /* "0": the port's */
    int64_t verbs_timeout;             /* 4.096 us << n */
    int64_t verbs_retries;             /* never 7, which means for ever */
    int64_t verbs_rnr_retries;
    uint64_t verbs_stripe_bytes;
    uint64_t verbs_inline_bytes;
    char verbs_relaxed_ordering[WRING_CONFIG_TEXT];
    char verbs_peermem[WRING_CONFIG_TEXT];
    char verbs_api[WRING_CONFIG_TEXT];
    uint64_t verbs_recover_ns; /* 0: never */
    uint64_t verbs_revive_ns;  /* likewise */
    uint64_t verbs_cache_bytes;

    /* time */
    uint64_t join_timeout_ns;
    uint64_t heartbeat_ns;
    uint64_t peer_timeout_ns;
    uint64_t timeout_ns; /* 0: a slow peer is no error */
    uint64_t spin_ns;

    /* work */
    char progress[WRING_CONFIG_TEXT];
    char executor[WRING_CONFIG_TEXT];
    char cpu[WRING_CONFIG_TEXT];
    char bypass[WRING_CONFIG_TEXT];
    char scheme[WRING_CONFIG_TEXT];
    char plan[WRING_CONFIG_TEXT];         /* a file, or "auto" */
    char codec_rules[WRING_CONFIG_RULES]; /* runtime/codec_rules.h */
    char plan_codecs[WRING_CONFIG_TEXT];
    uint64_t plan_seconds_ns;
    uint64_t plan_every_ns;
    char plan_save[WRING_CONFIG_TEXT];
    char record[WRING_CONFIG_TEXT];
    char cache[WRING_CONFIG_TEXT];
    char rollback[WRING_CONFIG_TEXT];
    int64_t stats_every; /* steps; 0: never */
    char log_level[WRING_CONFIG_TEXT];
    char trace[WRING_CONFIG_TEXT];

    /* drop-ins */
    char mpi_codec[WRING_CONFIG_TEXT]; /* "": exact */
    uint64_t mpi_codec_min;
    char nccl_codec[WRING_CONFIG_TEXT]; /* likewise */
    uint64_t nccl_codec_min;
    char nccl_devices[WRING_CONFIG_TEXT];
    int64_t nccl_lossless;
    uint64_t nccl_lossless_min;
    int64_t stats;

    /* the planner */
    char traces[WRING_CONFIG_TEXT];

    uint64_t given[2]; /* bit per variable, in the table's order: somebody has set it */
};

enum wring_config_type {
    WRING_CONFIG_STRING,
    WRING_CONFIG_CHOICE,  /* a string out of `choices` */
    WRING_CONFIG_INTEGER, /* int64, min..max */
    WRING_CONFIG_BYTES,   /* uint64, suffixes k m g (powers of 1024) */
    WRING_CONFIG_SECONDS, /* uint64 ns; written in s, or with the suffix us, ms or s */
};

struct wring_config_var {
    const char *name;
    const char *fallback; /* the default, as it would be written */
    const char *unit;     /* "" where there is none */
    const char *meaning;  /* one line for tables and man pages */
    enum wring_config_type type;
    const char *choices; /* CHOICE: words separated by '|' */
    int64_t min, max;    /* INTEGER, BYTES, and SECONDS in ns; of a STRING bytes, the NUL too */
    size_t offset;       /* of the field in struct wring_config */
    bool secret;         /* never printed */
};

/** All variables, in the order of documentation. @param count out. */
const struct wring_config_var *wring_config_vars(size_t *count);

/** As if the environment were empty. Errors: those of wring_config_load(), for a wrong table. */
enum wring_status wring_config_defaults(struct wring_config *config, const struct wring_log *log);

/**
 * Defaults, then the environment. Unknown WRING_ names are warned about on `log`.
 *
 * Errors: WRING_ERR_INVALID for a bad value, with a log line that names value and range.
 */
enum wring_status wring_config_load(struct wring_config *config, const struct wring_log *log);

/** Set one variable from text, as the environment would. Same errors as wring_config_load(). */
enum wring_status wring_config_set(struct wring_config *config, const struct wring_log *log,
                                   const char *name, const char *value);

/** Has somebody set this variable, be it to its default? @param name  of the table */
bool wring_config_given(const struct wring_config *config, const char *name);

/** The value of a variable as text; "(set)" for a secret one. @param text out, [bytes]. */
void wring_config_show(const struct wring_config *config, const struct wring_config_var *var,
                       char *text, size_t bytes);

/** The level that config->log_level names. */
enum wring_log_level wring_config_log_level(const struct wring_config *config);

/** A variable of a foreign launcher (OMPI_…, PMI_…, SLURM_…), or NULL. Borrowed, may change. */
const char *wring_config_foreign(const char *name);

#endif
