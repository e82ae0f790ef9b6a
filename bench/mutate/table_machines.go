package main

// machines are the packages below internal that decide without I/O.
var machines = []mutation{
	{
		"a bound in a tag is not in the schema", validation, "internal/toolschema/tag.go",
		"		s.Maximum = tag.Maximum\n", "		_ = tag.Maximum\n", "", "TestTagsBoundArguments",
	},
	{
		"null gets around the least size of a list", validation, "internal/toolschema/tag.go",
		"*tag.Least > 0 && !optional", "*tag.Least > 0 && optional", "", "TestTagsBoundArguments",
	},
	{
		"a format in a tag is a remark", validation, "internal/toolschema/infer.go",
		"	i.formats = i.formats || tag.Format != \"\"\n", "", "", "TestTagsBoundArguments",
	},
	{
		"null stands in for a default", validation, "internal/toolschema/presets.go",
		"			if value[0] == 'n' && p.members[i].value != nil {\n", "			if value[0] == 'n' && p.members[i].value == nil {\n", "", "TestDefaultsOfArguments",
	},
	{
		"null fits any enum in place", validation, "internal/toolschema/plan.go",
		"k == kindNull && p.orNull)", "k == kindNull)", "", "TestPlans",
	},
	{
		"a value of another type takes no step", limit, "internal/toolschema/work.go",
		"		c.left -= self\n", "		c.left -= self / 1000\n", "", "TestWideSchemas",
	},
	{
		"many alternatives have no budget", limit, "internal/toolschema/work.go",
		"return min(minSteps+stepsPerByte*size, maxSteps)", "return maxSteps", "", "TestWideSchemas",
	},
	{
		"the faults of a large value are looked for whatever that takes", limit, "internal/toolschema/work.go",
		"minSteps+size/namedPart)", "maxSteps)", "", "TestWideSchemas",
	},
	{
		"a large value fits if it does not", validation, "internal/toolschema/work.go",
		"if _, fits := errors.AsType[*jsonschema.ValidationError](err); fits {", "if _, fits := errors.AsType[*jsonschema.ValidationError](err); !fits {", "", "TestWideSchemas|TestWorkIsBounded",
	},
	{
		"a session lives at its last moment", expiry, "internal/session/record.go",
		"return !now.Before(r.Expires)", "return now.After(r.Expires)", "", "",
	},
	{
		"a session outlives its absolute end", expiry, "internal/session/record.go",
		"end.Before(r.Expires) {", "end.Before(r.Written) {", "", "",
	},
	{
		"activity is noted at half the idle time", expiry, "internal/session/record.go",
		"now.Sub(r.Written) > l.unused(r)/4", "now.Sub(r.Written) > l.unused(r)/2", "", "",
	},
	{
		"a session is rewritten at its absolute end", expiry, "internal/session/record.go",
		" && r.Expires.Before(r.Created.Add(l.Absolute))", "", "", "",
	},
	{
		"values count without their keys", limit, "internal/session/values.go",
		"bytes += len(quoted) + len(v) + len(`:,`)", "_ = quoted\n\t\tbytes += len(v)", "", "",
	},
	{
		"a copy of the record sees a new value", merge, "internal/session/values.go",
		"next := maps.Clone(r.Values)", "_ = maps.Clone(r.Values)\n\tnext := r.Values", "", "",
	},
	{
		"a full session has no duplicate ids", guard, "internal/session/calls.go",
		"if _, taken := t.byID[id]; taken {", "if _, taken := t.byID[id]; taken && (limit <= 0 || len(t.byID) < limit) {", "", "",
	},
	{
		"an event id has several spellings", validation, "internal/stream/id.go",
		"return n, err == nil && strconv.FormatUint(n, 10) == s", "return n, err == nil", "", "",
	},
	{
		"the priming event has entries", validation, "internal/stream/id.go",
		" || (num == 0 && last != 0)", "", "", "",
	},
	{
		"the log goes round before the record tells", guard, "internal/stream/machine.go",
		"m.tail+uint64(len(f.parts)) > m.covered+Ring {", "m.tail+uint64(len(f.parts)) > m.covered+Ring+1 {", "", "",
	},
	{
		"an append is blanked before the record tells", guard, "internal/stream/machine.go",
		"if m.flight = rewrite; m.low <= m.covered {", "if m.flight = rewrite; m.low <= m.tail {", "", "",
	},
	{
		"a takeover counts one append too many", guard, "internal/stream/machine.go",
		"m.low = e.Tail - uint64(len(m.sizes)) + 1", "m.low = e.Tail - uint64(len(m.sizes))", "", "",
	},
	{
		"an append is done while its guard is in doubt", guard, "internal/stream/machine.go",
		"|| f.record || f.doubt != certain {", "|| f.record {", "", "",
	},
	{
		"parts before a lost record are not stored again", guard, "internal/stream/machine.go",
		"m.tries, m.epoch = 0, e.Epoch\n\t\tm.rewind(f)", "m.tries, m.epoch = 0, e.Epoch", "", "",
	},
	{
		"what waits is stored though the stream ends in its place", guard, "internal/stream/machine.go",
		"	m.held = nil\n	m.endWith(e.Entries)\n", "	m.endWith(e.Entries)\n", "", "TestEndInPlaceOfWhatWaits",
	},
	{
		"a takeover is not noted before the record changes", guard, "internal/takeover/machine.go",
		"m.alone || !m.Writer.MustBeGone(m.self.Boot, m.given) {\n\t\tm.Marked(nil)", "true {\n\t\tm.Marked(nil)", "", "TestTakeoverIsNotedFirst",
	},
	{
		"a lease is steady at once", expiry, "internal/lease/lease.go",
		"return m.Since + m.term + Reconnect }", "return m.Since }", "", "TestSteady",
	},
	{
		"a late renewal is as good as one in time", expiry, "internal/lease/lease.go",
		"m.sent-m.Renewed > Late(m.term)", "m.sent-m.Renewed > m.term", "", "TestSteady",
	},
	{
		"parts before a rewritten record are not stored again", guard, "internal/stream/machine.go",
		"m.rewind(&f)\n", "", "", "",
	},
	{
		"what waits for the record is lost in silence", guard, "internal/stream/machine.go",
		"left = append(left, m.held.entries...)", "_ = m.held", "", "",
	},
	{
		"what waits is kept past a cancel", guard, "internal/stream/machine.go",
		"m.queue, m.queued, m.last = entries, 0, true", "m.queue, m.queued, m.last = append(m.queue, entries...), 0, true", "", "",
	},
	{
		"the ring keeps one append too many", limit, "internal/stream/machine.go",
		"if len(m.sizes) > Ring {", "if len(m.sizes) > Ring+1 {", "", "",
	},
	{
		"an append has more entries than it may", limit, "internal/stream/machine.go",
		"n := min(len(m.queue), m.lim.Batch)", "n := len(m.queue)", "", "",
	},
	{
		"the rest of an append stands for itself", validation, "internal/stream/entry.go",
		"case flags&flagCont != 0 && !r.open:", "case flags&flagCont != 0 && !r.open && false:", "", "",
	},
	{
		"the middle of an append is its end", validation, "internal/stream/entry.go",
		"data[1]&(flagCont|flagMore) == flagCont", "data[1]&flagCont == flagCont", "", "",
	},
	{
		"a later answer replaces the first", merge, "internal/record/digest.go",
		"q.Answer == nil && q.ID == string(e.Meta)", "q.ID == string(e.Meta)", "", "",
	},
	{
		"a call is answered twice in the digest", merge, "internal/record/digest.go",
		"if place >= 0 && !slices.Contains(d.Done, place) {", "if place >= 0 {", "", "",
	},
	{
		"the call with the largest question may not run again", merge, "internal/record/digest.go",
		"of[q.Member] += q.Size();", "of[q.Member] = q.Size();", "", "",
	},
	{
		"questions of calls that may not run again are kept", limit, "internal/record/digest.go",
		"q.Member >= len(rec.Calls) || !rec.May(q.Member)", "q.Member >= len(rec.Calls)", "", "",
	},
	{
		"the digest grows without bound", limit, "internal/record/past.go",
		"if p.bulk > MaxDigest {", "if p.bulk > 2*MaxDigest {", "", "",
	},
	{
		"what the log writes for itself counts as seen", merge, "internal/record/past.go",
		"if e.Kind.Visible() {", "if e.Kind != 0 {", "", "",
	},
	{
		"progress goes back", merge, "internal/record/sent.go",
		"!s.Progressed || v > s.Progress {", "v == v {", "", "",
	},
	{
		"messages count from the newest entry", merge, "internal/record/sent.go",
		"s.Messages = max(s.Messages, int(n))", "s.Messages = int(n)", "", "",
	},
	{
		"a notification names any call", limit, "internal/record/sent.go",
		"return int(n), k > 0 && n < MaxMembers", "return int(n), k > 0", "", "",
	},
	{
		"a mark is made though nothing has come", merge, "internal/record/past.go",
		" && now.Seen != p.Digest.Seen {", " {", "", "",
	},
	{
		"marks are not bounded", limit, "internal/record/past.go",
		"r.Earlier[max(0, len(r.Earlier)-maxWatermarks+1):]", "r.Earlier[max(0, len(r.Earlier)-2*maxWatermarks):]", "", "",
	},
	{
		"a copy of the record loses its right to run again", merge, "internal/record/stream.go",
		"r.Calls = slices.Clone(r.Calls)\n", "_ = slices.Clone(r.Calls)\n", "", "",
	},
	{
		"the attempts of an old record are not counted", merge, "internal/record/stream.go",
		"return int(r.Epoch)\n", "return r.Attempt\n", "", "",
	},
	{
		"a state is anybody's", seal, "internal/mrtr/state.go",
		`[]byte("requestState\x00" + tenant + "\x00" + server)`, `[]byte("requestState\x00" + "\x00" + server)`, "", "",
	},
	{
		"a state is for any server", seal, "internal/mrtr/state.go",
		`[]byte("requestState\x00" + tenant + "\x00" + server)`, `[]byte("requestState\x00" + tenant + "\x00")`, "", "",
	},
	{
		"a state is for any method", seal, "internal/mrtr/state.go",
		"st.Method != string(m.Method) || ", "", "", "",
	},
	{
		"a state is for any arguments", seal, "internal/mrtr/state.go",
		" || st.Request != RequestDigest(m)", "", "", "",
	},
	{
		"a state does not expire", expiry, "internal/mrtr/state.go",
		" || now.UnixMilli() >= st.Expires", "", "", "",
	},
	{
		"a state is good at its last moment", expiry, "internal/mrtr/state.go",
		"now.UnixMilli() >= st.Expires", "now.UnixMilli() > st.Expires", "", "",
	},
	{
		"a state has several spellings", seal, "internal/mrtr/state.go",
		"base64.RawURLEncoding.Strict()", "base64.RawURLEncoding", "", "",
	},
	{
		"a name and a URI run together", seal, "internal/mrtr/state.go",
		"h.Write([]byte{byte(len(part) >> 24), byte(len(part) >> 16), byte(len(part) >> 8), byte(len(part))})\n", "", "", "",
	},
	{
		"an answer that does not fit stays", validation, "internal/mrtr/input.go",
		"delete(in.Given, key)\n", "", "", "",
	},
	{
		"a question has the key of one before", validation, "internal/mrtr/input.go",
		"in.used = append(in.used, usedKey{unique, 1})", "in.used = append(in.used, usedKey{key, 1})", "", "",
	},
	{
		"an outcome is kept for as long as the process", expiry, "internal/mrtr/outcomes.go",
		"now.After(o.all[o.order[0]].Until)", "now.Before(o.all[o.order[0]].Until)", "", "",
	},
	{
		"outcomes are bounded by number alone", limit, "internal/mrtr/outcomes.go",
		"len(o.order) > maxOutcomes || o.bytes > maxOutcomeBytes", "len(o.order) > maxOutcomes", "", "",
	},
	{
		"the grace makes nothing a stream", guard, "internal/request/machine.go",
		"case Grace:\n\t\t\treturn Streaming, Open", "case Grace:\n\t\t\treturn Plain, 0", "", "",
	},
	{
		"a parked call answers nobody again", guard, "internal/request/machine.go",
		"case Result:\n\t\t\treturn Dropped, 0", "case Result:\n\t\t\treturn Answered, Answer", "", "",
	},
	{
		"a lost stream leaves its handler running", guard, "internal/request/machine.go",
		"return Dropped, StopCall\n", "return Dropped, 0\n", "", "",
	},
	{
		"progress stays where it is", validation, "internal/request/progress.go",
		"if g.seen && !(v > g.last) {", "if g.seen && v < g.last {", "", "",
	},
	{
		"progress comes once more a second", limit, "internal/request/progress.go",
		"if g.count >= Rate {", "if g.count > Rate {", "", "",
	},
	{
		"no share is left for those who come late", limit, "internal/quota/admit.go",
		"case mine > max(1, part(int64(limit), weight, sum)):", "case mine > max(1, int64(limit)):", "", "",
	},
	{
		"a limit is one more", limit, "internal/quota/admit.go",
		"return limit >= 0 && n > int64(limit)", "return limit >= 0 && n > int64(limit)+1", "", "",
	},
	{
		"who was refused keeps the place", guard, "internal/quota/admit.go",
		"if no != Admitted {\n\t\tt.Leave(a)", "if no == Full {\n\t\tt.Leave(a)", "", "",
	},
	{
		"a claim to a place is for ever", expiry, "internal/quota/accounts.go",
		"now.UnixNano()-at < int64(claimFor) ||", "now.UnixNano()-at >= 0 ||", "", "",
	},
	{
		"a dropped account goes on counting", guard, "internal/quota/account.go",
		"if a.dropped.Load() {\n\t\ta.Held[what].Add(-1)", "if a.dropped.Load() && n < 0 {\n\t\ta.Held[what].Add(-1)", "", "",
	},
	{
		"an account with streams is dropped", guard, "internal/quota/account.go",
		"if a.Held[i].Load() != 0 {", "if a.Held[i].Load() < 0 {", "", "",
	},
	{
		"an account with an empty bucket is dropped", limit, "internal/quota/account.go",
		"if !b.Full(now) {", "if !b.Full(now) && a == nil {", "", "",
	},
	{
		"every IPv6 address is a client", limit, "internal/quota/account.go",
		"net, _ := a.Prefix(64)", "net, _ := a.Prefix(128)", "", "",
	},
	{
		"the first line has every turn", limit, "internal/quota/turns.go",
		"\tt.next = append(t.next, k)\n}\n\n// Waiting", "\tt.next = slices.Insert(t.next, 0, k)\n}\n\n// Waiting", "", "TestTurns",
	},
	{
		"there are more places than there are", limit, "internal/quota/turns.go",
		"if t.taken < t.places {", "if t.taken <= t.places {", "", "TestTurns",
	},
	{
		"a place that nobody waits for is lost", guard, "internal/quota/turns.go",
		"t.taken--\n", "_ = t.taken\n", "", "TestTurns",
	},
	{
		"who has given up gets a place", guard, "internal/quota/turns.go",
		"if t.lines[k] = slices.Delete(t.lines[k], i, i+1); len", "if len", "", "TestTurns",
	},
	{
		"a place is lost on one who gives up", guard, "internal/quota/turns.go",
		"return !t.quit(k, called)", "t.quit(k, called)\n\t\treturn false", "", "TestTurns",
	},
	{
		"who took little waits like the others", guard, "internal/quota/pace.go",
		"p.amount > 0 && p.all.Amount(now)+n > p.amount && own", "p.amount > 0 && p.all.Amount(now)+n > p.amount || own", "", "TestPace",
	},
	{
		"who waits for a pace has taken its bytes", guard, "internal/quota/pace.go",
		"		return false\n	}\n	p.count(now, own, n)", "		p.count(now, own, n)\n		return false\n	}\n	p.count(now, own, n)", "", "TestPace",
	},
	{
		"a turn of a pace is kept", guard, "internal/quota/pace.go",
		"		defer p.turns.Leave()\n", "		_ = p.turns\n", "", "TestPace",
	},
	{
		"a turn of a pace takes no time", limit, "internal/quota/pace.go",
		"float64(n) / float64(p.amount)", "float64(n/n) / float64(p.amount)", "", "TestPace",
	},
	{
		"a pace ends nobody's waiting", guard, "internal/quota/pace.go",
		"case <-ctx.Done():\n		return false\n", "case <-(chan int)(nil):\n		return false\n", "", "TestPace",
	},
	{
		"a token is not given back", limit, "internal/quota/bucket.go",
		"b.l.AllowN(now, -n)", "b.l.AllowN(now, 0)", "", "",
	},
	{
		"what costs more than a bucket holds is refused for ever", limit, "internal/quota/bucket.go",
		"	n = min(n, b.size)\n	if b.l.AllowN", "	n = max(n, 1)\n	if b.l.AllowN", "", "",
	},
	{
		"several tokens come as soon as one", limit, "internal/quota/bucket.go",
		"seconds := (float64(n) - b", "seconds := (float64(n/n) - b", "", "",
	},
	{
		"many tokens cost one", limit, "internal/quota/bucket.go",
		"if b.l.AllowN(now, n) {", "if b.l.AllowN(now, n/n) {", "", "",
	},
	{
		"a window of usage is forgotten", expiry, "internal/quota/usage.go",
		"case window == u.window+1:", "case window == u.window+2:", "", "",
	},
	{
		"usage falls below nothing", limit, "internal/quota/usage.go",
		"u.before = max(0, u.before+u.now)", "u.before = u.before + u.now", "", "",
	},
	{
		"an update during the pause is lost", merge, "internal/subscription/subscription.go",
		"a.told[uri] = true", "a.told[uri] = false", "", "",
	},
	{
		"a new subscription ends with the one before", guard, "internal/subscription/subscription.go",
		"if s.all[a.key] == a {", "if s.all[a.key] != nil {", "", "",
	},
	{
		"resources below one are told without bound", limit, "internal/subscription/subscription.go",
		"!busy && len(a.told) >= maxBursts {", "!busy && len(a.told) > 2*maxBursts {", "", "",
	},
	{
		"members of a value take no steps", limit, "internal/toolschema/work.go",
		"case []any:\n\t\t\tc.left -= each * len(v)", "case []any:", "", "",
	},
	{
		"work is not counted where schemas meet", limit, "internal/toolschema/work.go",
		"total += n\n", "total = max(total, n)\n", "", "",
	},
	{
		"a schema leads back to itself", validation, "internal/toolschema/work.go",
		"if level == p.level {", "if level < 0 {", "", "",
	},
	{
		"an exponent is bounded in lower case", limit, "internal/toolschema/work.go",
		"c != 'e' && c != 'E' {", "c != 'e' {", "", "",
	},
	{
		"a header counts though it is there twice", validation, "internal/toolschema/headers.go",
		"case len(sent) > 1:\n\t\treturn errHeaderTwice", "case len(sent) > 2:\n\t\treturn errHeaderTwice", "", "",
	},
	{
		"a header without its argument is let through", validation, "internal/toolschema/headers.go",
		"case argument == nil:\n\t\treturn errHeaderAlone", "case argument == nil:\n\t\treturn nil", "", "",
	},
	{
		"a header carries integers that lose digits", validation, "internal/toolschema/headers.go",
		"if ok && !want.safe() {", "if ok && !want.safe() && want.exp > 0 {", "", "",
	},
	{
		"two properties have one header", validation, "internal/toolschema/headers.go",
		"if other.key == h.key {", "if other.key == h.key && len(path) > 1 {", "", "",
	},
	{
		"a session keeps all members that its client names", limit, "internal/session/client.go",
		"if n > k.room {", "if n > k.room && n < 0 {", "", "TestKeep",
	},
	{
		"members that are kept take no room", limit, "internal/session/client.go",
		"k.room -= n\n", "", "", "TestKeep",
	},
	{
		"a name of any length is kept", limit, "internal/session/client.go",
		"k.room < 0 {", "k.room < 0 && k.info.Name == \"\" {", "", "TestKeep",
	},
	{
		"a session lasts for days though its client said nothing", expiry, "internal/session/record.go",
		"if r.Fresh {\n\t\treturn l.Fresh", "if r.Fresh && l.Fresh > l.Idle {\n\t\treturn l.Fresh", "", "",
	},
	{
		"a session that is used lasts for minutes", expiry, "internal/session/record.go",
		"first, r.Fresh = r.Fresh, false", "first = r.Fresh", "", "",
	},
	{
		"a store is as large without memory", limit, "internal/limits/store.go",
		"max(leastStore, min(n, most)/mib*mib)", "max(leastStore, most)", "", "TestDefaultStore",
	},
	{
		"the index of a store in memory is all that it needs", limit, "internal/limits/store.go",
		"return store + index", "return index", "", "TestDefaultStore",
	},
	{
		"a task that has ended goes on", guard, "internal/task/attempt.go",
		"	case r.State == Ended:\n		return 0, ErrEnded\n", "", "", "",
	},
	{
		"an attempt that was taken over finishes a task", guard, "internal/task/attempt.go",
		"r.State != Running || r.Epoch != epoch", "r.State != Running", "", "",
	},
	{
		"an attempt finishes a task that waits", guard, "internal/task/attempt.go",
		"r.State != Running || r.Epoch != epoch", "r.Epoch != epoch", "", "",
	},
	{
		"a task is lost for ever", limit, "internal/task/attempt.go",
		"if r.Lost >= MaxAttempts {", "if r.Lost < 0 {", "", "",
	},
	{
		"to wait counts as a loss", guard, "internal/task/attempt.go",
		"	r.Attempt-- // it did what it could\n", "", "", "",
	},
	{
		"a question has the key of an earlier one", guard, "internal/task/attempt.go",
		"return old.Key == q.Key })", "return old.Key == q.Key && old.open() })", "", "",
	},
	{
		"the last answer to a question of a task counts", merge, "internal/task/attempt.go",
		"		if !q.open() {\n			continue\n		}\n", "", "", "",
	},
	{
		"a tool's error is a result in both eras", negotiation, "internal/task/outcome.go",
		"{mcp.TaskFailed, mcp.TaskCompleted}", "{mcp.TaskCompleted, mcp.TaskCompleted}", "", "",
	},
	{
		"a rewrite renews the lifetime of a task", limit, "internal/task/record.go",
		"time.UnixMilli(r.Created + r.TTL)", "time.UnixMilli(r.Updated + r.TTL)", "", "",
	},
	{
		"a refused append counts as stored", guard, "internal/stream/machine.go",
		"\tcase Guarded:\n\t\tf.doubt = looking\n", "\tcase Guarded:\n\t\tif !f.record {\n\t\t\treturn m.stored(out)\n\t\t}\n\t\tf.doubt = looking\n", "internal/sim/history", "TestKept",
	},
	{
		"an event is sent before it is stored", guard, "internal/stream/machine.go",
		"\tpart := f.parts[f.sent]\n", "\tpart := f.parts[f.sent]\n\tif len(f.parts) == 1 && m.tries == 0 {\n\t\tout = append(out, Effect{Do: DoDeliver, Num: f.num, Epoch: m.epoch, Entries: f.entries, Last: f.last})\n\t}\n", "internal/sim/history", "TestKept",
	},
	{
		"a resumed connection that has caught up is not primed", guard, "internal/attachment/attachment.go",
		"	a.live = true\n	if !a.done {\n		a.prime()\n	}\n", "	a.live = true\n", "", "",
	},
	{
		"a connection that a node sends away is not primed", guard, "internal/attachment/attachment.go",
		"	a.prime()\n	a.Conn.Finish()", "	a.Conn.Finish()", "", "",
	},
	{
		"a gap in the frames is not read from the log", merge, "internal/attachment/attachment.go",
		"case a.live && f.From <= a.next:", "case a.live:", "internal/sim/history", "TestKept",
	},
	{
		"a record is written without its digest", merge, "internal/record/past.go",
		"r.Digest = p.Digest.Clone()", "r.Digest = Digest{}", "internal/sim/history", "TestKept",
	},
	{
		"event ids have no epoch", guard, "internal/stream/id.go",
		"p.Epoch*maxEntries+uint64(p.Entry), 10)", "uint64(p.Entry), 10)", "internal/sim/history", "TestKept",
	},
	{
		"a record that has expired counts as taken", expiry, "internal/takeover/writer.go",
		"\treturn Lost\n}", "\treturn Taken\n}", "internal/sim/history", "TestKept",
	},
	{
		"a stream is taken over without a look at its writer", guard, "internal/takeover/writer.go",
		"return !w.IsOf(boot) && w != given", "return w == given && given.Boot == boot", "internal/sim/history", "TestKept",
	},
}
