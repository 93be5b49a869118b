/* SPDX-License-Identifier: Apache-2.0 */
/** Profiles that are refused: one line says where, and what was needed. */
#include "tests/lib/test.h"
#include "tests/planner/good_profile.h"
#include "tests/planner/json_cases.h"

static enum wring_status load(const char *path, const struct wring_log *log)
{
    struct wring_profile *profile = NULL;
    enum wring_status status = wring_profile_load(path, log, &profile);

    CHECK((status == WRING_OK) == (profile != NULL), "status %d, and a profile or none", status);
    wring_profile_destroy(profile);
    return status;
}

#define I WRING_ERR_INVALID

static void bad_files(void)
{
    static const struct json_case cases[] = {
        {"wring-profile", "wring-trace", I, "format: needs \"wring-profile\", is \"wring-trace\""},
        {"\"version\": 1", "\"version\": 7", WRING_ERR_VERSION,
         "version: is 7; this wring reads version 1"},
        {"\"mine\"", "\"\"", I, "name: needs a text of 1 to 63 bytes, is \"\""},
        {"\"machine\": \"A\",", "", I, "machine: needs a text of 0 to 255 bytes, is missing"},
        {"\"nodes\": 2", "\"nodes\": 0", I, "nodes: needs a whole number from 1 to 1048576, is 0"},
        {"\"ranks_per_node\": 4", "\"ranks_per_node\": 9223372036854775808", I,
         "ranks_per_node: needs a whole number from 1 to 65536, is 9.22337203685478e+18"},
        {"\"chunked\": true", "\"chunked\": 1", I, "chunked: needs true or false, is 1"},
        {"\"inter\"", "\"outer\"", I, "links: needs \"intra\" or \"inter\", has neither"},
        {"\"links\": {", "\"links\": 1, \"no\": {", I, "links: needs an object, is 1"},
        {"30", "-1", I, "links.inter.latency_us: needs a number from 0 to 1000000000, is -1"},
        {"30", "Infinity", I, "links.inter.latency_us: line 3: invalid token near 'Infinity'"},
        {"[0, 5]", "[0, 7]", I,
         "links.inter.us_by_bytes.corners[1]: y = 6.5 is below the 7 of the corner before it; "
         "costs never fall"},
        {"[0, 5]", "[1000, 5]", I,
         "links.inter.us_by_bytes.corners[1]: x = 1000 does not lie beyond the 1000 of the corner "
         "before it"},
        {"[0, 5]", "[0]", I,
         "links.inter.us_by_bytes.corners[0]: needs [x, y], is a list of another length"},
        {"[0, 5]", "5", I, "links.inter.us_by_bytes.corners[0]: needs [x, y], is 5"},
        {"[0, 5]", "[0, \"5\"]", I,
         "links.inter.us_by_bytes.corners[0]: needs a number from 0 to 1e+15, is \"5\""},
        {"[0, 5]", "[0,5],[1,5],[2,5],[3,5],[4,5],[5,5],[6,5],[7,5]", I,
         "links.inter.us_by_bytes.corners: needs 0 to 8 elements, has 9"},
        {"\"slope\": 0.01", "\"slope\": -1", I,
         "links.inter.us_by_bytes.slope: needs a number from 0 to 1000000000, is -1"},
        {"\"samples\": 17", "\"samples\": 0", I,
         "links.inter.us_by_bytes.samples: needs a whole number from 1 to 1000000000, is 0"},
        {"\"noisy\": 5", "\"noisy\": 10", I,
         "links.inter.us_by_bytes: 10 of 9 points cannot be noisy"},
        {"\"noisy\": 5", "\"noisy\": 5, \"doubtful\": 10", I,
         "links.inter.us_by_bytes: 10 of 9 points cannot be in doubt"},
        {"\"put\": {", "\"put\": 1, \"no\": {", I, "links.inter.put: needs an object, is 1"},
        {"[8, 6]", "", I,
         "links.inter.put.latency_us_by_bytes: has no corners; what was measured has one at least"},
        {"\"routine\": \"broadcast\"", "\"routine\": \"alltoall\"", I,
         "links.inter.routines[1]: \"alltoall\" is there already"},
        {"\"latency_us\": 12", "\"latency_us\": -1", I,
         "links.inter.routines[1].latency_us: needs a number from 0 to 1000000000, is -1"},
        {"topk:ratio=R+ef", "int8", I,
         "codecs[1].spec: \"int8\" is the codec of codecs[0] already"},
        {"\"int8\", \"summable\"", "\"none\", \"summable\"", I,
         "codecs[0].spec: \"none\" costs nothing and needs no entry"},
        {"0.001", "\"small\"", I,
         "codecs[0].nmse: needs a number from 0 to 1000000000, is \"small\""},
        {"\"decode_us\": {\"corners\": []", "\"decoding\": {\"corners\": []", I,
         "codecs[0].at.cpu.decode_us: needs an object, is missing"},
        {"\"decode_add_us\": {\"corners\": [[0, 3]]",
         "\"decode_add_us\": 3, \"no\": {\"corners\": [[0, 3]]", I,
         "codecs[1].at.device.decode_add_us: needs an object, is 3"},
        {"\"decode_add_us\": {\"corners\": [[1, 4]]", "\"decode_add_us\": {\"corners\": []", I,
         "codecs[1].coders[0].decode_add_us: has no corners; what was measured has one at least"},
        {"\"slope\": 0.25", "\"slope\": null", I,
         "codecs[0].at.cpu.encode_us.slope: needs a number from 0 to 1000000000, is null"},
        {"\"slope\": 8", NULL, I,
         "codecs[1].wire_bytes: line 22: string or '}' expected near end of file"},
        {"\"slope\": 0.0001", "\"slope\": \"steep\"", I,
         "copy_us.slope: needs a number from 0 to 1000000000, is \"steep\""},
        {"\"points\": 7, \"noisy\": 2", "\"points\": 7, \"noisy\": 8", I,
         "copy_us: 8 of 7 points cannot be noisy"},
        {"\"wake_us\": 19", "\"wake_us\": -19", I,
         "computing.wake_us: needs a number from 0 to 1000000000, is -19"},
        {"\"spin_lost\": 0.625", "\"spin_lost\": 1.5", I,
         "computing.spin_lost: needs a number from 0 to 1, is 1.5"},
        {"\"core_share\": 0.5", "\"core_share\": 0", I,
         "computing.core_share: needs a number from 1e-06 to 1, is 0"},
        {"\"lost\": 0.6", "\"lost\": 2", I,
         "computing.spin_coded.lost: needs a number from 0 to 1, is 2"},
        {"\"spin_doubt\"", "\"doubt_of_spin\"", I,
         "computing.spin_doubt: needs a number from 0 to 1000000000, is missing"},
        {"\"samples\": 20", "\"samples\": 0", I,
         "computing.samples: needs a whole number from 1 to 1000000000, is 0"},
        {"\"computing\": {", "\"computing\": 7, \"no\": {", I, "computing: needs an object, is 7"},
        {"\"computing\"", "\"nobody computes\"", WRING_OK, ""},
        {"\"ways\": [", "\"ways\": 3, \"no\": [", I, "ways: needs a list, is 3"},
        {"\"ways\": [\n", "\"ways\": [7,\n", I, "ways[0]: needs an object, is 7"},
        {"\"codec\": \"none\"", "\"codec\": \"\"", I,
         "ways[0].codec: needs a text of 1 to 127 bytes, is \"\""},
        {"\"run_as\": \"auto\"", "\"run_as\": \"rooted\"", I,
         "ways[0].run_as: needs auto, divisible or indivisible, or one of hierarchical, "
         "hierarchical-divisible and hierarchical-indivisible; is \"rooted\""},
        {"\"ranks\": 8", "\"ranks\": 0", I,
         "ways[0].ranks: needs a whole number from 1 to 1048576, is 0"},
        {"\"max_elements\": 4096", "\"coder_cores\": -1, \"max_elements\": 4096", I,
         "ways[0].coder_cores: needs a whole number from 0 to 4096, is -1"},
        {"\"max_elements\": 4096", "\"chunk_bytes\": 4095, \"max_elements\": 4096", I,
         "ways[0].chunk_bytes: needs a whole number from 4096 to 67108864, is 4095"},
        {"\"max_elements\": 4096", "\"max_elements\": 1.5", I,
         "ways[0].max_elements: needs a whole number from 1 to 1099511627776, is 1.5"},
        {"[1024, 9], [4096, 15]", "", I,
         "ways[0].solo_us: has no corners; what was measured has one at least"},
        {"\"error\": 0.02", "\"error\": -1", I,
         "ways[0].solo_us.error: needs a number from 0 to 1000000000, is -1"},
        {"\"noisy\": 1", "\"noisy\": 3", I, "ways[0].solo_us: 3 of 2 points cannot be noisy"},
        {"\"samples\": 13", "\"samples\": 0", I,
         "ways[0].solo_us.samples: needs a whole number from 1 to 1000000000, is 0"},
        {"\"errors\": {", "\"errors\": 1, \"no\": {", I, "errors: needs an object, is 1"},
        {"[\"w\", \"b\"]", "[]", I, "errors.tensors: needs 1 to 65536 elements, has 0"},
        {"[\"w\", \"b\"]", "[\"w\"]", I, "errors.codecs[0].tensors: needs 1 to 1 elements, has 2"},
        {"[\"w\", \"b\"]", "[\"w\", \"w\"]", I, "errors.tensors: has \"w\" twice"},
        {"[\"w\", \"b\"]", "[\"w\", 7]", I,
         "errors.tensors[1]: needs a text of 1 to 512 bytes, is 7"},
        {"00ff00ff00ff00ff", "ff", I, "errors.gradients: needs 16 hexadecimal digits, is \"ff\""},
        {"\"steps\": 16", "\"steps\": 0", I,
         "errors.steps: needs a whole number from 1 to 4096, is 0"},
        {"\"onebit+ef\"", "\"int8\"", I,
         "errors.codecs[1]: \"int8\" is the codec of codecs[0] already"},
        {"0.75", "-1", I, "errors.codecs[1].nmse: needs a number from 0 to 1000000000, is -1"},
        {"0.03125", "null", I,
         "errors.codecs[1].tensors[0].nmse_fed: needs a number from 0 to 1000000000, is null"},
        {"\"cpu\"", "\"moon\"", WRING_OK, ""},
        {"\"source\": \"calibrate\",", "", WRING_OK, ""},
        {0},
    };
    json_cases_check(good_profile, cases, load);
}

static void bad_traits(void)
{
    static const struct json_case cases[] = {
        {"\"rounds\": 2", "\"rounds\": 5", I,
         "codecs[0].traits.rounds: needs a whole number from 1 to 4, is 5"},
        {"\"rounds\": 2,", "", I,
         "codecs[0].traits: rounds and round_bytes: needs both of them, or neither"},
        {"\"alters\": true", "\"alters\": 1", I,
         "codecs[0].traits.alters: needs true or false, is 1"},
        {"\"state_bytes\": 6", "\"state_bytes\": -6", I,
         "codecs[0].traits.state_bytes: needs a number from 0 to 1024, is -6"},
        {"[0, 3]", "", I,
         "codecs[0].traits.way_back.bytes: has no corners; what was measured has one at least"},
        {"\"way_back\": {\"bytes\"", "\"way_back\": {\"length\"", I,
         "codecs[0].traits.way_back.bytes: needs an object, is missing"},
        {"\"traits\": {", "\"traits\": 3, \"no\": {", I, "codecs[0].traits: needs an object, is 3"},
        {"\"source\": \"a paper\"", "\"source\": 7", I,
         "codecs[0].at.cpu.source: needs a text of 0 to 95 bytes, is 7"},
        {"\"nmse\": 0.7", "\"loss\": 0.7", I,
         "codecs[0].traits.way_back.nmse: needs a number from 0 to 1000000000, is missing"},
        {"\"traits\"", "\"manners\"", WRING_OK, ""},
        {0},
    };
    json_cases_check(good_traits, cases, load);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"bad_files", bad_files},
        {"bad_traits", bad_traits},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
