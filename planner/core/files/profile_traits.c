/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/core/files/profile_traits.h"

#include "planner/core/files/profile.h"
#include <wring/codec.h>

#define STATE_BYTES_MAX 1024
#define NMSE_MAX 1e9

#define OWNER struct wring_profile_way_back
static const struct wring_field way_back_fields[] = {
    {"bytes", FIELD_COST(bytes), .min = 1},
    {"most_bytes", FIELD_COST(most_bytes), FIELD_SPARSE, .min = 1},
    {"encode_us", FIELD_COST(encode_us), FIELD_SPARSE, .min = 1},
    {"decode_us", FIELD_COST(decode_us), FIELD_SPARSE, .min = 1},
    {"nmse", FIELD_NUMBER(nmse, 0, NMSE_MAX)},
};
#undef OWNER

static bool has_way_back(const void *record)
{
    return ((const struct wring_profile_way_back *)record)->bytes.n > 0;
}

static const struct wring_record way_back_record = {RECORD_FIELDS(way_back_fields),
                                                    .is_set = has_way_back};

#define OWNER struct wring_profile_traits
static const struct wring_field traits_fields[] = {
    {"alters", FIELD_BOOL(alters), FIELD_SPARSE},
    {"rounds", FIELD_U32(rounds, 1, WRING_CODEC_ROUNDS_MAX), FIELD_SPARSE},
    {"round_bytes", FIELD_COST(round_bytes), FIELD_SPARSE, .min = 1},
    {"state_bytes", FIELD_NUMBER(state_bytes, 0, STATE_BYTES_MAX), FIELD_SPARSE},
    {"way_back", FIELD_OBJECT(way_back, way_back_record), FIELD_SPARSE},
};
#undef OWNER

static bool has_traits(const void *record)
{
    const struct wring_profile_traits *traits = record;

    return traits->alters || traits->rounds > 0 || traits->state_bytes > 0 ||
           has_way_back(&traits->way_back);
}

static void check_traits(struct wring_reading *reading, const void *record)
{
    const struct wring_profile_traits *traits = record;

    if ((traits->rounds > 0) == (traits->round_bytes.n > 0))
        return;
    wring_reading_fault(reading, WRING_ERR_INVALID,
                        "rounds and round_bytes: needs both of them, or neither");
}

const struct wring_record wring_profile_traits_record = {
    RECORD_FIELDS(traits_fields), .is_set = has_traits, .check = check_traits};
