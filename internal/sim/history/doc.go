// Package history simulates whole fleets with the machines that production runs. It has nothing but tests.
//
// A history is drawn from a seed: one to three nodes on one store, calls that notify, ask and keep silent, clients that post to any
// node, lose their connections and resume anywhere after any event that they have, and harm to nodes, messages and the store. It
// happens in one goroutine, as a queue of events in the order of their times and then of their numbers. There is no other clock,
// no other source of chance and no wait, so a seed gives the same history to the last event: TestSeedsRepeat.
//
// What decides is not modelled. A history runs
//
//	stream.Machine                     the writer: guarded appends, fence, append before send, ring and bytes
//	record.Stream, record.Past         the writer record, its digest and watermarks
//	takeover.Machine, Whose, Fates     who may take a stream over, how, and what becomes of its calls
//	takeover.Lifetime, NextEpoch       when a record would outlive its log, and the epoch in event ids
//	replay.Cursor                      which event ids can be resumed from, and what is read of the log
//	attachment.Attachment, Flow        the merge of log and frames, and the credit of a reader on another node
//	lease.Machine                      the renewal of a node's entry, and when the lease counts
//
// What stands around them in packages actors and cluster is written again here: what is asked of the store in which order, timers,
// letters, and which outcome is which event. The histories of actors/recovery run that with real actors, in virtual time.
// Sessions, subscriptions, digests of lists and the standalone stream are in those, and not here.
//
// The store evicts by slot, bytes and age, expires records, and answers with a conflict, with "full", with "not now", and with
// nothing, done or not done, also long after it was given up. The harm is
//
//	kill       the process is dead at once, and another one of its name starts
//	freeze     it stands still, also beyond every lifetime, and goes on as if nothing had been
//	storeless  it is cut off from the store
//	unheard    it is cut off from the other nodes
//	island     both
//	replace    it is cut off, another one takes its name, and then it goes on for a while
//	drain      it leaves in order
//	outage     the store is away
//	full       the store takes no writes
//	jump       the store's clock jumps, in either direction
//	power      all processes die, and the store is as it was before
//
// and letters are lost, late or come twice. One history in eighty has the ring that a server has, and more than 1,000 appends;
// in others handlers keep silent for longer than records live.
//
// The judge knows what clients and handlers saw and what the store had. It reports a fault when an event is lost, doubled, out of
// order, of another call or was never stored; when an id stands for two events; when a client is refused with an id after which the
// log must have everything; when a stream is taken from a writer that is there and has its lease; when a call runs again that may
// not or was answered, is lost though nobody took it, or gets another answer than the run before; and when a client still waits
// once all harm is over. It does not hold the server to what a power cut may have taken back, except to the meaning of ids.
//
//	go test ./internal/sim/history -run TestHistories -histories 20000 -seed 1      # the same each time
//	go test ./internal/sim/history -run TestHistories -histories 1 -seed 7 -tell    # one history, with all that happens
//	go test ./internal/sim/history -run TestHistories -histories 1000000 -timeout 2h  # a long run; its seed is drawn, and printed
//
// Seeds of histories that were wrong are kept in testdata/kept.txt, which TestKept runs. A change of what is drawn makes other
// histories of them.
//
// # It bites
//
// With the code made wrong, of the histories from seed 1 this one is wrong first:
//
//	appends are not guarded by a revision (in the model of the store)  seed 612, and 7 of 2,500
//	a refused append counts as stored                                  seed 312, and 10 of the first 1,238
//	a gap in the frames of another node is not read from the log       seed 87, and 10 of the first 373
//	an event is sent before it is stored                               seed 1, and 10 of the first 14
//	the record is written without its digest                           seed 19, and 10 of the first 113
//	event ids are written without their epochs                         seed 1, and 10 of the first 19
//	a record that has expired counts as taken                          seed 27, and 10 of the first 808
//	a stream is taken over without a look whether its writer is there  seed 3, and 10 of the first 20
//	an id is resumed from whose epoch is another than the log's        seed 252, and 6 of 20,000
//	who finds a writer gone does not renew its own entry first         seed 2220, and 3 of 20,000
//	what the old writer stored before the fence is not read            seed 11111, and 1 of 20,000
//	a lease is never over                                              seed 11882, and 1 of 20,000
//
// A clock that goes back while a record is about to outlive its log (takeover.Lifetime) is not found in 20,000: actors/recovery has that.
//
// A run ends when ten are wrong. Those up to the look at the writer, but the first, are rows of bench/mutate, which TestKept catches.
package history
