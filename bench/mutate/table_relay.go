package main

// relayed are requests that belong to another node.
var relayed = []mutation{
	{
		"relay: a message that comes again by another node is taken twice", guard, "actors/landing.go",
		"if name, ok := repeats(s.sess.key, m, body); ok {", "if name, ok := repeats(s.sess.key, m, body); ok && s == nil {", "", "TestMessageThatComesAgain",
	},
	{
		"relay: a message that comes again to its node is taken twice", guard, "actors/bound.go",
		"x != nil && x.wait() == done {", "x != nil && x.wait() > done {", "", "TestMessageThatComesAgain",
	},
	{
		"relay: a second run begins while the first one may wait", guard, "actors/landing.go",
		"				became = a.land(at)\n", "				if became = a.land(at); became == silent {\n					became = missing\n				}\n", "", "TestRetryWhileItsNodeIsSilent",
	},
	{
		"relay: a run that was left behind refuses what the later one asked", guard, "actors/mrtr.go",
		"	case m.round > max(p.asked, p.taken):\n", "	case false:\n", "internal/spec/stateless", "TestQuestionOfARunLeftBehind",
	},
	{
		"relay: a run that was left behind waits on", expiry, "actors/mrtr.go",
		"		r.goOn(more{err: ErrNoAnswer})\n	}\n}\n\n// settle", "	}\n}\n\n// settle", "internal/spec/stateless", "TestQuestionOfARunLeftBehind",
	},
	{
		"relay: a node that lives and is silent counts as gone", guard, "actors/relay.go",
		"return err == nil && gone", "return err == nil || gone", "", "TestRetryWhileItsNodeIsSilent|TestMessagesWhileTheirNodeIsAway",
	},
	{
		"relay: a node that cannot tell counts as gone", guard, "actors/relay.go",
		"return err == nil && gone", "return err != nil || gone", "", "TestRetryWhileItsNodeIsSilent|TestMessagesWhileTheirNodeIsAway",
	},
	{
		"relay: a call that its node does not have is waited for", guard, "actors/relay.go",
		"	if errors.Is(err, errNotHere) {\n		return true", "	if errors.Is(err, errNotHere) {\n		return false", "", "TestRetryWhoseNodeIsGone",
	},
	{
		"relay: a call is not looked for on other nodes", guard, "actors/landing.go",
		"return at, f.mail != nil && at.Boot != \"\" && at != f.self()", "return at, false", "", "TestRetryOnAnotherNode",
	},
	{
		"relay: the node of the call takes a retry while it ends", guard, "actors/landing.go",
		"if errors.Is(err, ErrUnavailable) || n.drain.over.Load() || n.store.Suspended() {", "if errors.Is(err, ErrUnavailable) {", "", "TestForwardsInADrain",
	},
	{
		"relay: a node that ends keeps its forwarded requests", guard, "actors/drain.go",
		"	d.node.relays.giveUp()\n", "", "", "TestForwardsInADrain",
	},
	{
		"relay: a lost node cancels the call of its client", guard, "actors/stateless.go",
		"	case m.broken:\n", "	case m.broken && m.x == nil:\n", "", "TestNodeWithTheConnectionIsKilled",
	},
	{
		"relay: a client that leaves does not cancel its call", guard, "actors/landing.go",
		"			d.gone(x.to, x.id, false)\n", "			d.gone(x.to, x.id, true)\n", "", "TestForwardedClientIsGone",
	},
	{
		"relay: a call without an exchange fails to send", guard, "actors/delivery.go",
		"func (unheard) send(e stream.Entry) { e.Drop(nil) }", "func (unheard) send(e stream.Entry) { e.Drop(stream.ErrEnded) }", "", "TestNodeWithTheConnectionIsKilled",
	},
	{
		"relay: a call that gets an exchange again is counted twice", limit, "actors/stateless.go",
		"		r.node.accounts.Leave(r.from) // it is counted with the exchange\n", "", "", "TestNodeWithTheConnectionIsKilled",
	},
	{
		"relay: a silent node is never given up by the node of the call", expiry, "actors/relay.go",
		"		if v.Silent(now) {\n", "		if v.Silent(now.Add(-time.Hour)) {\n", "", "TestNodeWithTheConnectionIsKilled",
	},
	{
		"relay: a silent node is never given up by the node with the connection", expiry, "internal/relay/near.go",
		"now.Sub(x.heard) > Patience", "now.Sub(x.heard) > 1000*Patience", "", "TestSilence",
	},
	{
		"relay: half a request stays", expiry, "actors/relay.go",
		"		if c.heard.Load() < late {\n", "		if c.heard.Load() < late-1<<60 {\n", "", "TestBadLetters",
	},
	{
		"relay: any node is heard in an exchange", guard, "actors/relay.go",
		"	case x.to != l.From:\n", "	case x.to == Address{}:\n", "", "TestFramesOfOthers",
	},
	{
		"relay: a letter that comes twice begins twice", guard, "actors/relay.go",
		"begun || twice {", "begun && twice {", "", "TestFramesOfOthers",
	},
	{
		"relay: a forwarded request is not counted where its call is", limit, "actors/relay.go",
		"		c.from, no = a.enter(nil, &c.in)\n", "		c.from = a.Of(c.in.Tenant, c.in.Address)\n", "", "TestForwardsAreCounted",
	},
	{
		"relay: a letter of any size is not counted where it comes", limit, "actors/relay.go",
		"no = a.hold(&c.held, nil, &c.in, quota.Bodies, quota.RequestBytes+int64(size)); no.reason == admitted", "no = a.hold(&c.held, nil, &c.in, quota.Bodies, quota.RequestBytes+int64(size)/64); no.reason == admitted", "", "TestLetterWithoutRoom|TestDeliveredOfAnySize",
	},
	{
		"relay: a letter of any size is not counted where it is sent", limit, "actors/fleet.go",
		"from, quota.Bodies, int64(len(data)))", "from, quota.Bodies, 0)", "", "TestDeliveredOfAnySize",
	},
	{
		"relay: a letter of any size stays counted where it came", limit, "actors/relay.go",
		"Reply: func(reply []byte) {\n		c.leave()\n", "Reply: func(reply []byte) {\n", "", "TestDeliveredOfAnySize",
	},
	{
		"relay: a letter of any kind comes in parts", validation, "actors/relay.go",
		" || l.Kind == exchangeLetter && delivered[c.head.Kind] == nil {", " {", "", "TestBadLetters",
	},
	{
		"relay: the release before gets no answers", guard, "actors/fleet.go",
		"case errors.Is(err, errNotKnown) && len(data) <= letter.MaxData:", "case errors.Is(err, errNotKnown) && len(data) <= letter.MaxData/1024:", "", "TestLettersToTheReleaseBefore",
	},
	{
		"relay: a refused letter counts as taken", guard, "actors/fleet.go",
		"case err == nil && reply[0] != isTaken:", "case err == nil && len(reply) == 0:", "", "TestLetterWithoutRoom",
	},
	{
		"relay: a forwarded message is not counted where it comes", limit, "actors/landing.go",
		"	if !n.accounts.admitMessage(nil, in, m, len(body)) { // the other node charges it, too\n", "	if m == nil {\n", "", "TestForwardedMessagesAreCounted",
	},
	{
		"relay: anything is a session's id", validation, "actors/landing.go",
		"if len(parts) != 3 || !isName(parts[0]) || !isName(parts[1]) || !stream.ValidID(parts[2]) {", "if len(parts) != 3 {", "", "TestMessagesOfOthers",
	},
	{
		"relay: a principal travels in the clear", seal, "actors/landing.go",
		"	return d.node.mrtr.keys.Seal(plain, head.aad())\n", "	return plain, nil\n", "", "TestPrincipalOfAForwardedMessage",
	},
	{
		"relay: a principal is taken from another message", seal, "actors/landing.go",
		` + "\x00" + h.Session)`, `)`, "", "TestPrincipalOfAForwardedMessage",
	},
	{
		"relay: what waits for a client stays counted", limit, "actors/landing.go",
		"		defer x.held.Free()\n", "", "", "TestRetryOnAnotherNode",
	},
	{
		"relay: an exchange is never forgotten where its connection is", limit, "actors/landing.go",
		"	defer n.relays.near.Drop(x.id, x)\n", "", "", "TestRetryOnAnotherNode",
	},
	{
		"relay: an exchange is never forgotten where its call is", limit, "actors/relay.go",
		"		d.far.Drop(key, v)\n", "", "", "TestRetryOnAnotherNode",
	},
	{
		"relay: a request that waits for the outcome of another stays in flight", limit, "actors/landing.go",
		"			v.Gone(func() { n.accounts.Leave(c.from) })\n", "", "", "TestFirstRetryWins",
	},
	{
		"relay: a node waits for a slow client whose call has cut it off", expiry, "internal/relay/near.go",
		"			x.discard()\n			x.over()\n", "			x.discard()\n", "actors", "TestSlowClientOfAForward",
	},
	{
		"relay: a missing frame goes unnoticed", merge, "internal/relay/receiver.go",
		"	case f.Num != r.num+1:\n", "	case f.Num == 0:\n", "", "TestFaults",
	},
	{
		"relay: a last frame that is missing goes unnoticed", merge, "internal/relay/near.go",
		"if num > x.in.num && x.fault == nil {", "if num > x.in.num+1 && x.fault == nil {", "", "TestSilence",
	},
	{
		"relay: a frame that comes twice counts twice", merge, "internal/relay/receiver.go",
		"	case f.Num <= r.num:\n		return m, 0, false, nil\n", "	case f.Num == 0:\n", "", "TestFaults",
	},
	{
		"relay: frames come in any order of a response", validation, "internal/relay/receiver.go",
		"if !r.phase.allows(f.Kind) ||", "if", "", "TestFaults",
	},
	{
		"relay: more than the window is on its way", limit, "internal/relay/sender.go",
		"s.sent-s.credit+f.weight() > Window", "s.sent-s.credit+f.weight() > 2*Window", "", "TestWindow|TestExchange",
	},
	{
		"relay: more than the window is taken", limit, "internal/relay/receiver.go",
		"if r.got-r.taken > Window+around {", "if r.got-r.taken > 8*Window {", "", "TestFaults",
	},
	{
		"relay: any number of bytes waits for a slow client", limit, "internal/relay/far.go",
		"	case waiting+len(data) > x.most && waiting >= x.most/2:\n", "	case waiting < 0:\n", "", "TestWindow",
	},
	{
		"relay: what comes is not counted", limit, "internal/relay/near.go",
		"	return h.Extend(int64(n)) == quota.Admitted\n", "	h.Grow(int64(n))\n	return true\n", "", "TestNoMemory",
	},
	{
		"relay: what a cut takes back stays counted", limit, "internal/relay/receiver.go",
		"		grows = -len(r.part.Data) - r.rest\n", "", "", "TestExchange",
	},
	{
		"relay: an upload takes more than it announced", limit, "internal/relay/upload.go",
		"if p.Offset != len(u.body) || len(p.Data) > u.size-len(u.body) {", "if p.Offset != len(u.body) {", "", "TestUpload",
	},
	{
		"relay: a token is stored with the principal that brought it", seal, "principal.go",
		"func (c *carriedCaller) MarshalJSON() ([]byte, error) { return codec.Marshal(c.storedCaller) }", "func (c *carriedCaller) MarshalJSON() ([]byte, error) { return codec.Marshal(c.callerForm) }", "", "TestCarriedCaller",
	},
}
