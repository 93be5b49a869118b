/* SPDX-License-Identifier: Apache-2.0 */
/** What wring replay says of a run. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/json.h"
#include "tools/commands.h"
#include "tools/output.h"
#include "tools/plan/replay.h"

static json_t *number_or_null(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static double spread_of(const struct wring_replay_result *result)
{
    return (result->p90_us - result->p10_us) / result->time_us.median;
}

static void add_choice(json_t *object, const struct wring_autoplan_report *report)
{
    json_object_set_new(object, "settled", json_boolean(report->settled));
    json_object_set_new(object, "chosen", wring_json_text(report->name));
    json_object_set_new(object, "chosen_groups", json_integer(report->groups));
    json_object_set_new(object, "end_to_end_us",
                        json_pack("{s:o, s:o, s:o}", "with", number_or_null(report->with_us),
                                  "without", number_or_null(report->without_us), "predicted",
                                  number_or_null(report->predicted_us)));
}

static json_t *list_beside(const struct wring_replay_params *params,
                           const struct wring_replay_result *result)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < params->n_beside; i++) {
        const struct wring_replay_beside *one = &result->beside[i];
        json_array_append_new(list, json_pack("{s:o, s:f, s:f, s:f, s:f, s:f}", "codec",
                                              wring_json_text(params->beside[i]), "measured_us",
                                              one->median_us, "ratio", one->ratio, "low",
                                              one->where.low, "high", one->where.high, "confidence",
                                              one->where.confidence));
    }
    return list;
}

int wring_replay_print_json(const struct wring_replay_params *params,
                            const struct wring_replay_result *result, double predicted_us)
{
    double measured_us = result->time_us.median;
    json_t *object = json_pack(
        "{s:o, s:i, s:i, s:f, s:s, s:f, s:{s:f, s:f, s:f}, s:f, s:o, s:o, s:f, s:f, s:I}", "model",
        wring_json_text(params->trace->model), "ranks", (int)result->ranks, "iterations",
        (int)params->iterations, "scale", params->scale, "compute",
        params->compute == WRING_REPLAY_SPIN ? "spin" : "sleep", "measured_us", measured_us,
        "time_us", "min", result->time_us.min, "median", measured_us, "p90", result->p90_us,
        "spread", spread_of(result), "predicted_us", number_or_null(predicted_us), "error",
        number_or_null(predicted_us / measured_us - 1), "wire_bytes", result->wire_bytes, "cpu_us",
        result->cpu_us, "wrong", (json_int_t)result->wrong);

    if (params->automatic)
        add_choice(object, &result->automatic);
    if (params->n_beside > 0)
        json_object_set_new(object, "beside", list_beside(params, result));
    return wring_json_print(stdout, object) == WRING_OK ? WRING_EXIT_OK : wring_output_failed();
}

/** What the job chose for itself, by iterations as it sees them: from end to end. */
static void print_choice(const struct wring_autoplan_report *report)
{
    if (!report->settled) {
        printf("  chosen     nothing: there were too few iterations\n");
        return;
    }
    printf("  chosen     %s; from end to end %.3f ms with it, %.3f ms without", report->name,
           report->with_us / 1e3, report->without_us / 1e3);
    if (isfinite(report->predicted_us))
        printf(", %.3f ms predicted", report->predicted_us / 1e3);
    printf("\n");
}

static void print_beside(const struct wring_replay_params *params,
                         const struct wring_replay_result *result)
{
    for (uint32_t i = 0; i < params->n_beside; i++) {
        const struct wring_replay_beside *one = &result->beside[i];
        printf("  %-10s %10.3f ms   this takes %.3f of it; from %.3f to %.3f with %.0f %% "
               "confidence\n",
               params->beside[i], one->median_us / 1e3, one->ratio, one->where.low, one->where.high,
               one->where.confidence * 100);
    }
}

void wring_replay_print(const struct wring_replay_params *params,
                        const struct wring_replay_result *result, double predicted_us)
{
    const struct wring_tensor_trace *trace = params->trace;
    double measured_us = result->time_us.median;

    printf("%s, %" PRIu32 " tensors, %" PRIu32 " ranks, %" PRIu32 " iterations\n", trace->model,
           trace->n, result->ranks, params->iterations);
    printf("  measured   %10.3f ms   %.3f ms of it exposed; spread %.1f %%\n", measured_us / 1e3,
           fmax(measured_us - wring_tensor_trace_alone_us(trace), 0) / 1e3,
           spread_of(result) * 100);
    if (isfinite(predicted_us))
        printf("  predicted  %10.3f ms   off by %+.1f %%\n", predicted_us / 1e3,
               (predicted_us / measured_us - 1) * 100);
    printf("  sent       %10.3f MB   a rank and iteration\n", result->wire_bytes / 1e6);
    printf("  processor  %10.3f ms   likewise\n", result->cpu_us / 1e3);
    if (params->automatic)
        print_choice(&result->automatic);
    print_beside(params, result);
}
