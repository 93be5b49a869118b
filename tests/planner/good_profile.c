/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/planner/good_profile.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/test.h"
#include "tests/planner/json_cases.h"

const char good_profile[] =
    "{\"format\": \"wring-profile\", \"version\": 1, \"name\": \"mine\", \"machine\": \"A\",\n"
    " \"source\": \"calibrate\", \"nodes\": 2, \"ranks_per_node\": 4, \"chunked\": true,\n"
    " \"links\": {\"inter\": {\"provider\": \"tcp\", \"latency_us\": 30,\n"
    "   \"us_by_bytes\": {\"corners\": [[0, 5], [1000, 6.5]], \"slope\": 0.01, \"error\": 0.07,\n"
    "    \"spread\": 0.03, \"doubt\": 0.04, \"samples\": 17, \"points\": 9, \"noisy\": 5},\n"
    "   \"latency_trust\": {\"error\": 0, \"spread\": 0.5, \"doubt\": 0.3, \"samples\": 18,\n"
    "    \"points\": 3, \"noisy\": 3, \"doubtful\": 1},\n"
    "   \"put\": {\"latency_us_by_bytes\": {\"corners\": [[8, 6]], \"slope\": 0.5, \"error\": 0,\n"
    "     \"spread\": 0, \"doubt\": 0, \"samples\": 99, \"points\": 4, \"noisy\": 0},\n"
    "    \"us_by_bytes\": {\"corners\": [[8, 2]], \"slope\": 1.5, \"error\": 0,\n"
    "     \"spread\": 0, \"doubt\": 0, \"samples\": 3, \"points\": 4, \"noisy\": 0}},\n"
    "   \"routines\": [{\"routine\": \"alltoall\", \"latency_us\": 11,\n"
    "     \"us_by_bytes\": {\"corners\": [[0, 0]], \"slope\": 2}},\n"
    "    {\"routine\": \"broadcast\", \"latency_us\": 12,\n"
    "     \"us_by_bytes\": {\"corners\": [[0, 0]], \"slope\": 3}}]}},\n"
    " \"codecs\": [\n"
    "  {\"spec\": \"int8\", \"summable\": false, \"feedback\": false, \"nmse\": 0.001,\n"
    "   \"wire_bytes\": {\"corners\": [[0, 4]], \"slope\": 1.0625},\n"
    "   \"at\": {\"cpu\": {\"encode_us\": {\"corners\": [[0, 1]], \"slope\": 0.25},\n"
    "     \"decode_us\": {\"corners\": [], \"slope\": 0}}}},\n"
    "  {\"spec\": \"topk:ratio=R+ef\", \"summable\": false, \"feedback\": true, \"nmse\": null,\n"
    "   \"wire_bytes\": {\"corners\": [[0, 16]], \"slope\": 8},\n"
    "   \"at\": {\"device\": {\"encode_us\": {\"corners\": [], \"slope\": 0},\n"
    "     \"decode_us\": {\"corners\": [[0, 2]], \"slope\": 0.125},\n"
    "     \"decode_add_us\": {\"corners\": [[0, 3]], \"slope\": 0.5, \"error\": 0.01,\n"
    "      \"spread\": 0.06, \"doubt\": 0.02, \"samples\": 9, \"points\": 6, \"noisy\": 0}}},\n"
    "   \"coders\": [{\"cores\": 1, \"tier\": \"scalar\",\n"
    "     \"encode_us\": {\"corners\": [[1, 1]], \"slope\": 0, \"error\": 0, \"spread\": 0,\n"
    "      \"doubt\": 0, \"samples\": 5, \"points\": 1, \"noisy\": 0},\n"
    "     \"decode_us\": {\"corners\": [[1, 2]], \"slope\": 0, \"error\": 0, \"spread\": 0,\n"
    "      \"doubt\": 0, \"samples\": 5, \"points\": 1, \"noisy\": 0},\n"
    "     \"decode_add_us\": {\"corners\": [[1, 4]], \"slope\": 0, \"error\": 0, \"spread\": 0,\n"
    "      \"doubt\": 0, \"samples\": 6, \"points\": 1, \"noisy\": 0}}]}\n"
    " ],\n"
    " \"copy_us\": {\"corners\": [[0, 0]], \"slope\": 0.0001, \"error\": 0.01,\n"
    "   \"spread\": 0.06, \"doubt\": 0.02, \"samples\": 11, \"points\": 7, \"noisy\": 2},\n"
    " \"computing\": {\"wake_us\": 19, \"wake_doubt_us\": 2, \"spin_lost\": 0.625, \"core_share\": "
    "0.5,\n"
    "   \"spin_coded\": {\"codec\": \"fp16\", \"lost\": 0.6, \"doubt\": 0.7},\n"
    "   \"spin_doubt\": 0.03, \"samples\": 20},\n"
    " \"ways\": [\n"
    "  {\"codec\": \"none\", \"run_as\": \"auto\", \"ranks\": 8, \"cores\": 4, \"max_elements\": "
    "4096,\n"
    "   \"solo_us\": {\"corners\": [[1024, 9], [4096, 15]], \"slope\": 0.002, \"error\": 0.02,\n"
    "    \"spread\": 0.4, \"doubt\": 0.1, \"samples\": 13, \"points\": 2, \"noisy\": 1},\n"
    "   \"busy_us\": {\"corners\": [[1024, 3]], \"slope\": 0.003, \"error\": 0,\n"
    "    \"spread\": 0, \"doubt\": 0, \"samples\": 12, \"points\": 2, \"noisy\": 0},\n"
    "   \"cpu_us\": {\"corners\": [[1024, 4]], \"slope\": 0, \"error\": 0,\n"
    "    \"spread\": 0, \"doubt\": 0, \"samples\": 12, \"points\": 2, \"noisy\": 0},\n"
    "   \"wire_bytes\": {\"corners\": [[0, 0]], \"slope\": 4}},\n"
    "  {\"codec\": \"bf16\", \"run_as\": \"divisible\", \"ranks\": 2, \"cores\": 1, "
    "\"max_elements\": 1024,\n"
    "   \"coder_cores\": 2, \"chunk_bytes\": 65536,\n"
    "   \"solo_us\": {\"corners\": [[1024, 9]], \"slope\": 0, \"error\": 0,\n"
    "    \"spread\": 0, \"doubt\": 0, \"samples\": 5, \"points\": 1, \"noisy\": 0},\n"
    "   \"busy_us\": {\"corners\": [[1024, 3]], \"slope\": 0, \"error\": 0,\n"
    "    \"spread\": 0, \"doubt\": 0, \"samples\": 5, \"points\": 1, \"noisy\": 0},\n"
    "   \"cpu_us\": {\"corners\": [[1024, 4]], \"slope\": 0, \"error\": 0,\n"
    "    \"spread\": 0, \"doubt\": 0, \"samples\": 5, \"points\": 1, \"noisy\": 0},\n"
    "   \"wire_bytes\": {\"corners\": [[0, 0]], \"slope\": 1}}\n"
    " ],\n"
    " \"errors\": {\"source\": \"a training\", \"gradients\": \"00ff00ff00ff00ff\", \"steps\": "
    "16,\n"
    "  \"tensors\": [\"w\", \"b\"],\n"
    "  \"codecs\": [\n"
    "   {\"spec\": \"int8\", \"nmse\": 0.25, \"nmse_fed\": 0.25,\n"
    "    \"tensors\": [{\"nmse\": 0.5, \"nmse_fed\": 0.5}, {\"nmse\": 0, \"nmse_fed\": 0.125}]},\n"
    "   {\"spec\": \"onebit+ef\", \"nmse\": 0.75, \"nmse_fed\": 0.0625,\n"
    "    \"tensors\": [{\"nmse\": 0.9, \"nmse_fed\": 0.03125}, {\"nmse\": 1, \"nmse_fed\": 2}]}\n"
    "  ]}}\n";

const char good_traits[] =
    "{\"format\": \"wring-profile\", \"version\": 1, \"name\": \"mine\", \"machine\": \"A\",\n"
    " \"nodes\": 2, \"ranks_per_node\": 4, \"chunked\": true,\n"
    " \"links\": {\"inter\": {\"provider\": \"tcp\", \"latency_us\": 30,\n"
    "   \"us_by_bytes\": {\"corners\": [[0, 5]], \"slope\": 0.01}}},\n"
    " \"codecs\": [\n"
    "  {\"spec\": \"int8\", \"summable\": false, \"feedback\": false, \"nmse\": 0.001,\n"
    "   \"wire_bytes\": {\"corners\": [[0, 4]], \"slope\": 1.0625},\n"
    "   \"traits\": {\"alters\": true, \"rounds\": 2,\n"
    "     \"round_bytes\": {\"corners\": [[0, 40]], \"slope\": 0.5}, \"state_bytes\": 6,\n"
    "     \"way_back\": {\"bytes\": {\"corners\": [[0, 3]], \"slope\": 2.5},\n"
    "      \"most_bytes\": {\"corners\": [[0, 7]], \"slope\": 4.5},\n"
    "      \"encode_us\": {\"corners\": [[0, 9]], \"slope\": 0.5},\n"
    "      \"decode_us\": {\"corners\": [[0, 11]], \"slope\": 0.5}, \"nmse\": 0.7}},\n"
    "   \"at\": {\"cpu\": {\"encode_us\": {\"corners\": [[0, 1]], \"slope\": 0.25},\n"
    "     \"decode_us\": {\"corners\": [], \"slope\": 0},\n"
    "     \"state_us_by_bytes\": {\"corners\": [[0, 13]], \"slope\": 0.5},\n"
    "     \"code_sum_us\": {\"corners\": [[0, 5]], \"slope\": 0.25, \"error\": 0, \"spread\": 0,\n"
    "      \"doubt\": 0, \"samples\": 8, \"points\": 1, \"noisy\": 0},\n"
    "     \"source\": \"a paper\"}},\n"
    "   \"coders\": [{\"cores\": 1, \"tier\": \"scalar\",\n"
    "     \"encode_us\": {\"corners\": [[1, 1]], \"slope\": 0, \"error\": 0, \"spread\": 0,\n"
    "      \"doubt\": 0, \"samples\": 5, \"points\": 1, \"noisy\": 0},\n"
    "     \"decode_us\": {\"corners\": [[1, 2]], \"slope\": 0, \"error\": 0, \"spread\": 0,\n"
    "      \"doubt\": 0, \"samples\": 5, \"points\": 1, \"noisy\": 0},\n"
    "     \"code_sum_us\": {\"corners\": [[1, 6]], \"slope\": 0, \"error\": 0, \"spread\": 0,\n"
    "      \"doubt\": 0, \"samples\": 7, \"points\": 1, \"noisy\": 0}}]},\n"
    "  {\"spec\": \"bf16\", \"summable\": false, \"feedback\": false, \"nmse\": 1e-06,\n"
    "   \"wire_bytes\": {\"corners\": [[0, 0]], \"slope\": 2}, \"at\": {}}]}\n";

static struct wring_log quiet = {.level = WRING_LOG_ERROR};

static struct wring_profile *load(const char *text, size_t bytes)
{
    struct wring_profile *profile = NULL;
    char path[64];
    int fd = json_text_open(text, bytes, path);

    CHECK(wring_profile_load(path, &quiet, &profile) == WRING_OK, "%s", text);
    close(fd);
    return profile;
}

struct wring_profile *good_profile_load(void)
{
    return load(good_profile, strlen(good_profile));
}

struct wring_profile *good_traits_load(void)
{
    return load(good_traits, strlen(good_traits));
}

static enum wring_status save(const void *profile, FILE *file)
{
    return wring_profile_save(profile, file);
}

void good_profile_check_round_trip(const struct wring_profile *profile)
{
    size_t bytes, bytes_again;
    char *text = json_text_save(profile, save, &bytes);
    struct wring_profile *copy = load(text, bytes);

    REQUIRE(copy != NULL, "%s: what was saved is refused", profile->name);
    CHECK(copy->hash == profile->hash, "%s: another hash", profile->name);
    char *again = json_text_save(copy, save, &bytes_again);
    CHECK(bytes == bytes_again && memcmp(text, again, bytes) == 0, "%s: another text\n%s",
          profile->name, again);
    free(again);
    free(text);
    wring_profile_destroy(copy);
}
