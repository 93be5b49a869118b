/* SPDX-License-Identifier: Apache-2.0 */
/* What a job of so many ranks would take: wring info --scale. */
#include <inttypes.h>

#include "runtime/scale.h"
#include "tools/commands.h"
#include "tools/info/info.h"
#include "tools/output.h"
#include "tools/values.h"

static json_t *describe_rank(uint32_t rank, const struct wring_scale_rank *of)
{
    const struct wring_scale_memory *memory = &of->memory;
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "rank", (json_int_t)rank,
                     "connections", (json_int_t)of->connections, "descriptors",
                     (json_int_t)of->descriptors, "messages", (json_int_t)of->messages,
                     "memory_bytes", (json_int_t)wring_scale_bytes(memory), "table_bytes",
                     (json_int_t)memory->table, "state_bytes", (json_int_t)memory->state,
                     "connection_bytes", (json_int_t)memory->connections, "slot_bytes",
                     (json_int_t)memory->slots, "fixed_bytes", (json_int_t)memory->fixed);
}

static void show_rank(const char *name, const struct wring_scale_rank *of)
{
    const struct wring_scale_memory *memory = &of->memory;
    printf("  %-13s %11" PRIu64 " %11" PRIu64 " %8" PRIu64
           " %10.2f %6.2f %6.2f %11.2f %6.2f %6.2f\n",
           name, of->connections, of->descriptors, of->messages,
           (double)wring_scale_bytes(memory) / (1 << 20), (double)memory->table / (1 << 20),
           (double)memory->state / (1 << 20), (double)memory->connections / (1 << 20),
           (double)memory->slots / (1 << 20), (double)memory->fixed / (1 << 20));
}

static int print_json(const struct wring_scale_job *job, const struct wring_scale *scale)
{
    json_t *all = json_pack(
        "{s:{s:I, s:s, s:I, s:s, s:I, s:o, s:o}}", "scale", "ranks", (json_int_t)job->ranks,
        "provider", scale->provider, "bytes", (json_int_t)job->bytes, "algorithm", scale->algorithm,
        "table_bytes_per_rank", (json_int_t)scale->table_bytes_per_rank, "root",
        describe_rank(0, &scale->root), "most", describe_rank(scale->most_rank, &scale->most));
    return wring_json_print(stdout, all) == WRING_OK ? WRING_EXIT_OK : wring_output_failed();
}

int wring_info_scale(const struct wring_config *config, const struct wring_scale_job *job,
                     bool json)
{
    struct wring_log log = {.level = WRING_LOG_WARN};
    struct wring_scale scale;
    char text[32], most[32];

    if (wring_scale_predict(config, &log, job, &scale) != WRING_OK)
        return WRING_EXIT_FAILURE; /* the log line said why */
    if (json)
        return print_json(job, &scale);
    printf("a job of %" PRIu32 " ranks over %s that sums %s of float32 (%s)\n", job->ranks,
           scale.provider, wring_value_show_bytes(job->bytes, text, sizeof(text)), scale.algorithm);
    printf("  %-13s %11s %11s %8s %10s %6s %6s %11s %6s %6s\n", "", "connections", "descriptors",
           "messages", "memory MiB", "table", "state", "connections", "slots", "fixed");
    snprintf(most, sizeof(most), "rank %" PRIu32 ", most", scale.most_rank);
    show_rank("rank 0", &scale.root);
    show_rank(most, &scale.most);
    printf("  Memory and descriptors are at most those, beside what the program takes itself. The "
           "addresses of\n  all ranks take each rank %" PRIu64 " bytes a rank.\n",
           scale.table_bytes_per_rank);
    return WRING_EXIT_OK;
}
