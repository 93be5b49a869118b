/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/latency.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "tools/commands.h"
#include "tools/output.h"
#include "tools/values.h"

void wring_latency_progress(uint64_t bytes, double median_us, double gb_per_s)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r%" PRIu64 " bytes: %.2f us, %.2f GB/s\033[K", bytes, median_us,
                gb_per_s);
}

static double get_number(json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static void show_results(json_t *results)
{
    static const struct wring_table_column with_rate[] = {
        {"bytes", WRING_ALIGN_RIGHT},      {"min us", WRING_ALIGN_RIGHT},
        {"median us", WRING_ALIGN_RIGHT},  {"p99 us", WRING_ALIGN_RIGHT},
        {"messages/s", WRING_ALIGN_RIGHT}, {"GB/s", WRING_ALIGN_RIGHT},
    };
    static const struct wring_table_column without[] = {
        {"bytes", WRING_ALIGN_RIGHT},     {"min us", WRING_ALIGN_RIGHT},
        {"median us", WRING_ALIGN_RIGHT}, {"p99 us", WRING_ALIGN_RIGHT},
        {"GB/s", WRING_ALIGN_RIGHT},
    };
    bool rate = json_object_get(json_array_get(results, 0), "messages_per_s") != NULL;
    struct wring_table *table =
        rate ? wring_table_create(with_rate, 6) : wring_table_create(without, 5);
    json_t *result;
    size_t i;

    json_array_foreach(results, i, result)
    {
        json_t *latency = json_object_get(result, "latency_us");
        char bytes[32];
        wring_value_show_bytes((uint64_t)get_number(result, "bytes"), bytes, sizeof(bytes));
        wring_table_cell(table, "%s", bytes);
        wring_table_cell(table, "%.2f", get_number(latency, "min"));
        wring_table_cell(table, "%.2f", get_number(latency, "median"));
        wring_table_cell(table, "%.2f", get_number(latency, "p99"));
        if (rate)
            wring_table_cell(table, "%.0f", get_number(result, "messages_per_s"));
        wring_table_cell(table, "%.3f", get_number(result, "bandwidth_gb_per_s"));
    }
    wring_table_finish(table, stdout);
}

int wring_latency_print(json_t *results, bool json, json_t *head, const char *title)
{
    if (json_array_size(results) == 0) {
        json_decref(head);
        return WRING_EXIT_OK;
    }
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K");
    if (json) {
        json_object_set(head, "results", results);
        return wring_json_print(stdout, head) == WRING_OK ? WRING_EXIT_OK : wring_output_failed();
    }
    json_decref(head);
    printf("%s\n", title);
    show_results(results);
    return WRING_EXIT_OK;
}
