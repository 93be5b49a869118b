/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Does a plugin for NCCL's messages do what NCCL's proxy relies on?
 *
 *     test_net PLUGIN auto|v12|v11|v8 [NAME=VALUE...] [seed=N] [deadline=SECONDS] [CASE...]
 *
 * Each case starts its own ranks, 1 to 8 processes, which load the plugin and call it in the order
 * in which NCCL does. NAME=VALUE is a variable of the plugin's; no-device=NAME=VALUE one by which
 * it finds no device, each=NAME=VALUE|VALUE... one that ranks have in turn. largest=MIB is the size
 * of the largest message, memory=MIB what the plugin may need for it beside the caller's buffers.
 */
#include "tests/nccl/net_cases.h"
#include "tests/nccl/rig.h"

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"tables_are_whole_in_every_version", tables_are_whole_in_every_version},
        {"properties_make_sense", properties_make_sense},
        {"init_says_who_it_is", init_says_who_it_is},
        {"no_device_fails_loudly", no_device_fails_loudly},
        {"connecting_never_blocks", connecting_never_blocks},
        {"sends_before_accept_arrive", sends_before_accept_arrive},
        {"malformed_handles_are_refused", malformed_handles_are_refused},
        {"strangers_do_no_harm", strangers_do_no_harm},
        {"many_connections_of_one_pair", many_connections_of_one_pair},
        {"rank_connects_to_itself", rank_connects_to_itself},
        {"posting_never_blocks", posting_never_blocks},
        {"small_sends_need_no_receive", small_sends_need_no_receive},
        {"grouped_receives_fill_all_requests", grouped_receives_fill_all_requests},
        {"refused_sends_make_progress", refused_sends_make_progress},
        {"tags_pick_slots_of_the_head", tags_pick_slots_of_the_head},
        {"equal_tags_fill_slots_in_order", equal_tags_fill_slots_in_order},
        {"messages_keep_their_order", messages_keep_their_order},
        {"receives_may_be_larger", receives_may_be_larger},
        {"larger_sends_fail_at_both_ends", larger_sends_fail_at_both_ends},
        {"messages_of_zero_bytes", messages_of_zero_bytes},
        {"requests_are_tested_in_any_order", requests_are_tested_in_any_order},
        {"completion_may_be_optional", completion_may_be_optional},
        {"flush_comes_to_an_end", flush_comes_to_an_end},
        {"what_is_sent_is_left_alone", what_is_sent_is_left_alone},
        {"large_messages_come_whole", large_messages_come_whole},
        {"streams_of_random_sizes", streams_of_random_sizes},
        {"threads_have_connections_of_their_own", threads_have_connections_of_their_own},
        {"regions_nest_and_repeat", regions_nest_and_repeat},
        {"closing_ends_requests_in_flight", closing_ends_requests_in_flight},
        {"last_message_outlives_its_sender", last_message_outlives_its_sender},
        {"sends_end_though_the_receiver_has_gone", sends_end_though_the_receiver_has_gone},
        {"communicators_are_counted", communicators_are_counted},
        {"library_is_loaded_again", library_is_loaded_again},
        {"library_is_loaded_twice", library_is_loaded_twice},
        {"versions_work_side_by_side", versions_work_side_by_side},
        {"versions_talk_to_each_other", versions_talk_to_each_other},
        {"dead_receiver_is_told", dead_receiver_is_told},
        {"dead_sender_is_told", dead_sender_is_told},
        {NULL, NULL},
    };
    int taken = rig_take_arguments(argc, argv);

    if (taken == 0)
        return 2;
    return wring_test_main(argc - taken, argv + taken, cases);
}
