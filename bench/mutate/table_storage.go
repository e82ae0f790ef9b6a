package main

// storage is cluster.
var storage = []mutation{
	{
		"appends are stored for any writer", guard, "cluster/eventlog.go",
		"nats.Header{headerExpected: a.expected, headerGuard: a.guard, headerTTL: a.ttl}", "nats.Header{headerTTL: a.ttl}", "", "",
	},
	{
		"appends do not expire", expiry, "cluster/eventlog.go",
		"nats.Header{headerExpected: a.expected, headerGuard: a.guard, headerTTL: a.ttl}", "nats.Header{headerExpected: a.expected, headerGuard: a.guard}", "", "",
	},
	{
		"an append has the number 0", validation, "cluster/eventlog.go",
		"case num == 0:", "case num == 0 && rev == 0:", "", "",
	},
	{
		"a record is rewritten though it is gone", guard, "cluster/eventlog.go",
		"if err == nil && rev == 0 {", "if err == nil && rev == 0 && rec == nil {", "", "",
	},
	{
		"a body is put together from two", merge, "cluster/task.go",
		"if total != size || size > most", "if size > most", "", "",
	},
	{
		"half a body is a whole one", validation, "cluster/task.go",
		"|| len(data) == 0 && size > 0 {", "{\n\t\t\tif len(all) > 0 { return all, nil }", "", "",
	},
	{
		"what is created replaces what is there", guard, "cluster/records.go",
		"case lastErr != nil || len(s.data) > 0:", "case lastErr != nil:", "", "",
	},
	{
		"an update without a revision creates", guard, "cluster/records.go",
		"case rev == 0:", "case rev == 0 && data == nil:", "", "",
	},
	{
		"what is deleted was another's", guard, "cluster/records.go",
		"if rev != 0 {\n\t\treturn n.bury(ctx, stream, subject, rev)", "if rev == 1 {\n\t\treturn n.bury(ctx, stream, subject, rev)", "", "",
	},
	{
		"a record is larger than it may", limit, "cluster/records.go",
		"case len(data) > MaxRecord:", "case len(data) > MaxRecord+1:", "", "",
	},
	{
		"a lifetime is cut to seconds", expiry, "cluster/options.go",
		"return (d + time.Second - 1) / time.Second * time.Second", "return d / time.Second * time.Second", "", "",
	},
	{
		"a lease is taken from a newer boot", guard, "internal/lease/lease.go",
		"case boot != m.boot:", "case boot == \"\":", "cluster", "",
	},
	{
		"a lease goes on after a newer boot", expiry, "internal/lease/lease.go",
		"m.Rev, m.Renewed = 0, min(m.Renewed, m.sent-m.term-1)\n", "m.Rev = 0\n", "cluster", "",
	},
	{
		"a lease counts from the answer to its renewal", expiry, "cluster/lease.go",
		"			l.renewed.Store(int64(m.Renewed))\n", "			if l.renewed.Store(int64(m.Renewed)); m.Err == nil {\n				l.renewed.Store(int64(time.Since(l.base)))\n			}\n", "", "",
	},
	{
		"a first lease counts from the answer", expiry, "cluster/lease.go",
		"\t\t\tl.renewed.Store(int64(sent))", "\t\t\tl.renewed.Store(int64(max(sent, time.Since(l.base))))", "", "",
	},
	{
		"each unknown key has the ring read", limit, "cluster/keyring.go",
		"wait := lookEvery - time.Since(r.tried)\n", "wait := 0 * time.Since(r.tried)\n", "", "",
	},
	{
		"keys open for as long as they are known", expiry, "cluster/keyring.go",
		"return k, ok && time.Since(k.created) < r.lifetime()", "return k, ok", "", "",
	},
	{
		"a key seals for ever", expiry, "cluster/keyring.go",
		"if epoch != 0 && age < r.node.opts.KeyRotate {", "if epoch != 0 {", "", "",
	},
	{
		"an old key seals until it is forgotten", expiry, "cluster/keyring.go",
		"age < r.node.opts.KeyRotate+keepOldKeys/2 {", "age < r.node.opts.KeyRotate+2*keepOldKeys {", "", "",
	},
	{
		"a key opens what was sealed for something else", seal, "cluster/keyring.go",
		"head...), aad...)", "head...), aad[:0]...)", "", "",
	},
	{
		"a key has the number of one that a newer release made", merge, "cluster/keyring.go",
		"max(current, highest(newer))", "current", "", "",
	},
	{
		"what a newer release adds is lost", validation, "cluster/directory.go",
		"dec.DisallowUnknownFields()\n", "", "", "",
	},
	{
		"a failed flush is a flush", guard, "cluster/flush.go",
		"f.end(g, failed)", "f.end(g, nil)", "", "",
	},
	{
		"blocks before the last are not flushed", guard, "cluster/flush.go",
		"if err := f.sync(file); err != nil {", "if index != top {\n\t\t\t_ = file.Close()\n\t\t\tcontinue\n\t\t}\n\t\tif err := f.sync(file); err != nil {", "", "",
	},
	{
		"an append that was overwritten is read", guard, "cluster/replay.go",
		"if s.Num == from+uint64(i) && len(s.Data) > 0 {", "if s.Num > 0 && i >= 0 && len(s.Data) > 0 {", "", "",
	},
	{
		"the tail is what is near the hint", merge, "cluster/tail.go",
		"if err == nil && !enough {", "if err == nil && !enough && hint == 0 {", "", "",
	},
	{
		"large appends are read for their numbers", limit, "cluster/tail.go",
		"cut = size > tailBytes", "cut = size > 1<<30", "", "TestReadBigAppends",
	},
	{
		"what follows a blank counts as expired", merge, "cluster/tail.go",
		"err != nil || cut || len(last.Data) == 0 {", "err != nil || cut || last.Num == 0 {", "", "TestTailOfAnyLog",
	},
	{
		"gets that nobody waits for stay counted", limit, "cluster/replay.go",
		"for ; got < len(tokens); got++ {", "for ; got < 0; got++ {", "", "TestFewGets",
	},
	{
		"an append of the last round is taken for the end", merge, "cluster/tail.go",
		"case s.Num == nums[probe]:", "case s.Num <= nums[probe]:", "", "TestRing",
	},
	{
		"what expires during a search for the end ends the search", merge, "cluster/tail.go",
		"\tif errors.Is(err, ErrNotFound) {\n\t\treturn false, nil", "\tif errors.Is(err, ErrNotFound) {\n\t\treturn true, nil", "", "TestTailWhileTheLogExpires",
	},
	{
		"what expires after it was listed is where the end is looked for", merge, "cluster/tail.go",
		"if !errors.Is(err, ErrNotFound) { // otherwise", "if errors.Is(err, ErrNotFound) { last, err = from, nil }; if true { // otherwise", "", "TestTailWhileTheLogExpires",
	},
}
