/* SPDX-License-Identifier: Apache-2.0 */
/** The cases of test_net.c: what NCCL's proxy relies on in a plugin for messages. */
#ifndef WRING_TESTS_NCCL_NET_CASES_H
#define WRING_TESTS_NCCL_NET_CASES_H

/* net_connecting.c: from the tables to a connection */
void tables_are_whole_in_every_version(void);
void properties_make_sense(void);
void init_says_who_it_is(void);
void no_device_fails_loudly(void);
void connecting_never_blocks(void);
void sends_before_accept_arrive(void);
void malformed_handles_are_refused(void);
void strangers_do_no_harm(void);
void many_connections_of_one_pair(void);
void rank_connects_to_itself(void);

/* net_messages.c: one connection */
void posting_never_blocks(void);
void small_sends_need_no_receive(void);
void grouped_receives_fill_all_requests(void);
void refused_sends_make_progress(void);
void tags_pick_slots_of_the_head(void);
void equal_tags_fill_slots_in_order(void);
void receives_may_be_larger(void);
void larger_sends_fail_at_both_ends(void);
void requests_are_tested_in_any_order(void);
void messages_of_zero_bytes(void);
void completion_may_be_optional(void);
void flush_comes_to_an_end(void);
void messages_keep_their_order(void);
void what_is_sent_is_left_alone(void);

/* net_large.c: messages of hundreds of MiB */
void large_messages_come_whole(void);

/* net_streams.c: many at once */
void streams_of_random_sizes(void);
void threads_have_connections_of_their_own(void);

/* net_lives.c: regions, communicators, libraries, processes */
void regions_nest_and_repeat(void);
void closing_ends_requests_in_flight(void);
void last_message_outlives_its_sender(void);
void sends_end_though_the_receiver_has_gone(void);
void communicators_are_counted(void);
void library_is_loaded_again(void);
void library_is_loaded_twice(void);
void versions_work_side_by_side(void);
void versions_talk_to_each_other(void);
void dead_receiver_is_told(void);
void dead_sender_is_told(void);

#endif
