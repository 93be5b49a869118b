/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/planner/good_plan.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/test.h"
#include "tests/planner/json_cases.h"

const char good_plan[] =
    "{\"format\": \"wring-plan\", \"version\": 1, \"trace_hash\": \"0123456789abcdef\",\n"
    " \"profile_hash\": \"fedcba9876543210\", \"model\": \"M\", \"profile\": \"p\",\n"
    " \"machine\": \"\", \"timeline\": \"phases\", \"nodes\": 8, \"ranks_per_node\": 1,\n"
    " \"iteration_us\": 120.5, \"last_ready_us\": 100, \"baseline_us\": {\"fp32\": 300, "
    "\"fp16\": null},\n"
    " \"espresso_us\": 130, \"bound_us\": 119, \"gap\": 0.0126, \"selection_us\": 5,\n"
    " \"bound_time_us\": 1000, \"executor\": \"pool:3\", \"chunk_bytes\": 131072, \"groups\": [\n"
    "  {\"tensors\": [\"a\", \"b\"], \"elements\": 10, \"tensor_elements\": [4, 6],\n"
    "   \"codec\": \"int8\", \"where\": \"cpu\",\n"
    "   \"scheme\": \"encode cpu, flat allgather*, decode cpu\", \"chunk_elements\": 0,\n"
    "   \"cores\": 0, \"run_as\": \"auto\"},\n"
    "  {\"tensors\": [\"c\"], \"elements\": 3, \"codec\": \"none\", \"where\": \"\",\n"
    "   \"scheme\": \"flat allreduce\", \"chunk_elements\": 65536, \"cores\": 2, "
    "\"executor\": \"pool:2\", \"run_as\": \"auto\"}\n"
    " ]}\n";

static struct wring_log loud = {.level = WRING_LOG_ERROR};

static struct wring_plan *load(const char *text, size_t bytes)
{
    struct wring_plan *plan = NULL;
    char path[64];
    int fd = json_text_open(text, bytes, path);

    CHECK(wring_plan_load(path, &loud, &plan) == WRING_OK, "%s", text);
    close(fd);
    return plan;
}

struct wring_plan *good_plan_load(void)
{
    return load(good_plan, strlen(good_plan));
}

static enum wring_status save(const void *plan, FILE *file)
{
    return wring_plan_save(plan, file);
}

void good_plan_check_round_trip(const struct wring_plan *plan)
{
    size_t bytes, bytes_again;
    char *text = json_text_save(plan, save, &bytes);
    struct wring_plan *copy = load(text, bytes);

    REQUIRE(copy != NULL, "what was saved is refused: %s", text);
    char *again = json_text_save(copy, save, &bytes_again);
    CHECK(bytes == bytes_again && memcmp(text, again, bytes) == 0, "%s became %s", text, again);
    free(again);
    free(text);
    wring_plan_destroy(copy);
}
