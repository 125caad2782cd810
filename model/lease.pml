/* The lease-and-claim protocol, watched through one tick.
 *
 * Two equal IDs are equal in one tick, W, which may be any. To W a floor, a ceiling, a
 * last claim and a reading of a clock are only one of few things:
 *
 *     floor   0: at or below W, W may be used      1: above W
 *     ceil    0: at or below W, W may not be used  1: above W
 *     at      0: no claim has reached W yet; n: the last claim is number n of W;
 *             PAST: W is over for this generator, full or followed by a later claim
 *     clock   BEFORE, AT or AFTER W
 *
 * So there is no bound on ticks, TTL, MaxAhead, MaxWait or Settle. What depends on how far
 * apart two times are is left open: each reading of a clock is arbitrary, anybody may take
 * any code at any time, a claim that is ahead of its clock may be refused or not, a floor
 * may lie above its ceiling. All of that allows more than the code does.
 *
 * There are no version numbers either. A write presents the version of a record, and one
 * that is not the record's present one can never succeed. So "cur" says that a version is
 * the present one; and the writes that are under way to a record, any number of them, are
 * the SET of those that present it: the first to land ends all the others. A write that
 * is waited for lands when it is sent, or joins that set and is not waited for any more:
 * one that lands later, and is answered, is one that was sent later.
 *
 * Nonce i+1 is that of the present attempt of worker i; once that is over nobody can present
 * it again, and it becomes 0, nobody's.
 *
 * Options: FAILOVER has a store show what it may still lose: each record also is as it was when a
 * write was last acknowledged, or later, and comes back as that. What presents that version
 * is kept along: it can succeed again. What presents one that was lost never can, because
 * every write has a nonce of its own. PAUSES has an answer wait for its receiver, and nextID for its own claim, for as
 * long as it likes; without it these are one step each, see README.md. SYMMETRY keeps one of
 * the states that differ only in the numbers of the workers. All other names break the
 * protocol; none goes with SYMMETRY.
 */
#ifndef WORKERS
#define WORKERS 2 /* at most 4 */
#endif
#ifndef CODES
#define CODES 2 /* at most 2 */
#endif
#ifndef SEQS
#define SEQS 2 /* sequence numbers in a tick */
#endif

#if defined(LATE_ANSWER_AFTER_RELEASE) || defined(LATE_ANSWER_FOR_ANOTHER)
#define LATE_ANSWER
#endif
#if defined(REFUSAL_RESETS_SEQUENCE) || defined(POINTER_RESETS_SEQUENCE) || defined(SEQUENCE_WRAPS) || defined(STEP_BACK_RESTARTS)
#define PAST (SEQS+1) /* here it matters why W is over */
#else
#define PAST SEQS
#endif

#define BEFORE 0
#define AT 1
#define AFTER 2

/* A worker's lease. */
#define IDLE 0      /* nothing is held */
#define ACQUIRING 1 /* a code was asked for, and it is not known what became of it */
#define HELD 2
#define CLOSING 3   /* stopped for good; the release may be sent */

typedef Record {
	unsigned nonce : 3;
	unsigned ceil : 1;
	unsigned way : 10; /* writes under way that present its version, a bit for each result */
#ifdef FAILOVER
	bit lossy; /* what is shown may be lost: then comes back */
	unsigned dnonce : 3;
	unsigned dceil : 1;
	unsigned dway : 10;
#ifdef VERSION_COMES_AGAIN
	unsigned lnonce : 3; /* what was lost: its nonce, and who presents it */
	unsigned lway : 10;
#endif
#endif
#ifdef RENEW_ANY_VERSION
	unsigned old : 10; /* renewals under way, whatever they present */
#endif
#ifdef SWAP_IGNORES_NONCE
	bit restored;
#endif
}

typedef Worker {
	unsigned phase : 2;
	unsigned code : 1;
	unsigned cur : 1;   /* the version that it knows is the present one */
	unsigned floor : 1;
	unsigned ceil : 1;  /* HELD: as revealed; CLOSING: as last known */
#ifdef FAILOVER
	unsigned dcur : 1;  /* it is the one that may come back */
#endif
	unsigned at : 3;    /* of the generator */
	unsigned by : 1;    /* the code of its last claim, if that can be continued in W */
#ifdef PAUSES
	unsigned ans : 2;   /* an answer is on its way: 1 + the ceiling that it tells; cur is its version's */
	unsigned inside : 1; /* nextID has read the grant: */
	unsigned gcode : 1;
	unsigned gfloor : 1;
	unsigned gceil : 1;
#endif
#ifdef LATE_ANSWER
	bit late; /* an answer that was given up on, and tells a ceiling above W */
#endif
#ifdef READBACK_TRUSTS_REQUEST
	bit asked; /* the ceiling in the last request */
#endif
}

Record r[CODES];
Worker w[WORKERS];
byte used; /* the sequence numbers of W that were claimed with code 0: codes are alike */

/* The bit of a write that leaves nonce n and ceiling b. */
#define WAY(n, b) (1 << (2*(n)+(b)))

#ifdef NONCE_SHARED
#define NONCE(i) 1
#else
#define NONCE(i) ((i)+1)
#endif
#ifdef READBACK_IGNORES_NONCE
#define MINE(i) true
#else
#define MINE(i) (r[w[i].code].nonce == NONCE(i))
#endif
#ifdef SWAP_IGNORES_NONCE /* after a restore versions come again, and with them old ones */
#define KNOWS(i) (w[i].cur || r[w[i].code].restored)
#else
#define KNOWS(i) w[i].cur
#endif
#ifdef PAUSES
#define FREE(i) (w[i].ans == 0)
#define INSIDE(i) w[i].inside
#else
#define FREE(i) true
#define INSIDE(i) false
#endif
#ifdef RELEASE_BEFORE_STOP
#define STOPPED(i) false
#define MAYSTOP(i) true
#else
#define STOPPED(i) (w[i].phase == CLOSING)
#define MAYSTOP(i) (!INSIDE(i))
#endif
#define GRANTED(i) (w[i].phase == HELD || (w[i].phase == CLOSING && !STOPPED(i)))

/* ---- the store ---- */

/* A ceiling in the store is never below one revealed to a generator that has not stopped.
 * IDS_ONLY leaves that out, to see what it leads to. */
inline checkCeilings(c) {
#ifdef IDS_ONLY
	skip
#else
	k = 0;
	do
	:: k < WORKERS ->
		assert(!(w[k].phase == HELD && w[k].code == c && w[k].ceil) || r[c].ceil);
#ifdef PAUSES
		assert(!(w[k].inside && w[k].gcode == c && w[k].gceil) || r[c].ceil);
#endif
		k++
	:: else -> break
	od;
	k = 0
#endif
}

#ifdef FAILOVER
/* What record c shows may be lost from now on. */
inline risk(c) {
	if
	:: !r[c].lossy ->
		r[c].lossy = 1; r[c].dnonce = r[c].nonce; r[c].dceil = r[c].ceil; r[c].dway = r[c].way;
		k = 0;
		do
		:: k < WORKERS -> if :: w[k].code == c -> w[k].dcur = w[k].cur :: else fi; k++
		:: else -> break
		od;
		k = 0
	:: else
	fi
}

/* It will not be lost any more. */
inline harden(c) {
	r[c].lossy = 0; r[c].dnonce = 0; r[c].dceil = 0; r[c].dway = 0;
	k = 0;
	do
	:: k < WORKERS -> if :: w[k].code == c -> w[k].dcur = 0 :: else fi; k++
	:: else -> break
	od;
	k = 0
}

/* It is lost. */
inline failOver(c) {
#ifdef VERSION_COMES_AGAIN
	r[c].lnonce = r[c].nonce; r[c].lway = r[c].way;
#endif
	r[c].nonce = r[c].dnonce; r[c].ceil = r[c].dceil; r[c].way = r[c].dway;
	k = 0;
	do
	:: k < WORKERS -> if :: w[k].code == c -> w[k].cur = w[k].dcur :: else fi; k++
	:: else -> break
	od;
	harden(c);
	checkCeilings(c)
}
#else
#define risk(c) skip
#define harden(c) skip
#endif

/* A write succeeds: every version that is known of the record is an old one now. */
inline land(c, n, b) {
	risk(c);
	r[c].nonce = n;
	r[c].ceil = b;
	r[c].way = 0;
#ifdef VERSION_COMES_AGAIN
	if :: n != 0 && n == r[c].lnonce -> r[c].way = r[c].lway :: else fi;
	r[c].lnonce = 0; r[c].lway = 0;
#endif
	k = 0;
	do
	:: k < WORKERS -> if :: w[k].code == c -> w[k].cur = 0 :: else fi; k++
	:: else -> break
	od;
	checkCeilings(c)
}

/* The nonce of worker i will not be presented again. */
inline forgetNonce(i) {
	skip;
#ifndef NONCE_SHARED
	k = 0;
	do
	:: k < CODES ->
		if :: r[k].nonce == i+1 -> r[k].nonce = 0 :: else fi;
		r[k].way = (r[k].way | ((r[k].way >> (2*(i+1))) & 3)) & ~(3 << (2*(i+1)));
#ifdef FAILOVER
		if :: r[k].dnonce == i+1 -> r[k].dnonce = 0 :: else fi;
		r[k].dway = (r[k].dway | ((r[k].dway >> (2*(i+1))) & 3)) & ~(3 << (2*(i+1)));
#ifdef VERSION_COMES_AGAIN
		if :: r[k].lnonce == i+1 -> r[k].lnonce = 0; r[k].lway = 0 :: else fi;
		r[k].lway = (r[k].lway | ((r[k].lway >> (2*(i+1))) & 3)) & ~(3 << (2*(i+1)));
#endif
#endif
#ifdef RENEW_ANY_VERSION
		r[k].old = r[k].old & ~(3 << (2*(i+1)));
#endif
		k++
	:: else -> break
	od;
	k = 0
#endif
}

/* ---- a worker's lease ---- */

/* reveal: what the store has acknowledged is what the generator may use. */
inline reveal(i, b_) {
	w[i].ceil = b_;
	if
	:: w[i].phase == ACQUIRING -> w[i].phase = HELD
	:: else
	fi;
#ifdef POINTER_RESETS_SEQUENCE
	if :: w[i].phase == HELD && w[i].at > 0 && w[i].at <= SEQS -> w[i].at = 1 :: else fi;
#endif
	c = w[i].code;
	checkCeilings(c);
	c = 0
}

/* The store tells worker i the present record, with ceiling b_. */
inline tell(i, b_) {
	w[i].cur = 1;
#ifdef PAUSES
	w[i].ans = 1+b_
#else
	reveal(i, b_)
#endif
}

/* swap: worker i sends a write of its nonce and ceiling b. */
inline send(i) {
#ifdef READBACK_TRUSTS_REQUEST
	w[i].asked = b;
#endif
	c = w[i].code;
	if
	:: d_step { land(c, NONCE(i), b); harden(c); tell(i, b) } /* it lands, and is acknowledged */
	:: r[c].way = r[c].way | WAY(NONCE(i), b) /* it is not waited for */
	fi;
	b = 0; c = 0
}

/* readBack: it tells the present version, and nothing else. A record of somebody else has no
 * step here: to give up, or to drop the lease, is always possible. */
inline readBack(i) {
#if defined(READBACK_TRUSTS_REQUEST) || defined(READBACK_REVEALS)
#ifdef READBACK_TRUSTS_REQUEST
	b = w[i].asked;
#else
	b = r[w[i].code].ceil;
#endif
	tell(i, b);
	b = 0
#else
	w[i].cur = 1
#endif
}

/* take: floor and ceiling are computed from the record whose version is presented. */
inline acquire(i, on) {
	if
	:: b = r[on].ceil
	:: b = 1
#ifdef ACQUIRE_LOWERS
	:: b = 0
#endif
	fi;
	if
	:: w[i].floor = r[on].ceil
	:: w[i].floor = 1 /* with Settle, whatever it is */
#ifdef FLOOR_FROM_CLOCK
	:: w[i].floor = 0
#endif
	fi;
	w[i].phase = ACQUIRING; w[i].code = on;
	send(i)
}

/* renew: the ceiling is never lower than that of the record whose version is presented. So
 * does an acquisition whose record was read back, to have it acknowledged. */
inline renew(i) {
	if
	:: b = r[w[i].code].ceil
	:: b = 1
#ifdef RENEW_LOWERS
	:: b = 0
#endif
	fi;
#ifdef RENEW_ANY_VERSION
	if :: r[w[i].code].old = r[w[i].code].old | WAY(i+1, b) :: skip fi;
#endif
#ifdef REVEAL_BEFORE_DURABLE
	w[i].ceil = b;
#endif
	send(i)
}

/* giveBack: the ceiling stays, or comes down to what was not used. */
inline giveBack(i) {
	if :: b = r[w[i].code].ceil :: b = (r[w[i].code].ceil && w[i].floor) fi;
	send(i)
}

#ifdef FAILOVER
/* A write presents the version that may come back, and waits for that. */
inline sendStale(i) {
	c = w[i].code;
	if
	:: b = r[c].dceil
	:: w[i].phase != CLOSING -> b = 1
	:: w[i].phase == CLOSING -> b = (r[c].dceil && w[i].floor)
	fi;
	r[c].dway = r[c].dway | WAY(NONCE(i), b);
	b = 0; c = 0
}
#endif

/* An answer is lost, or comes too late. */
inline dropAnswer(i) {
#ifdef PAUSES
	if :: w[i].ans != 0 -> w[i].cur = 0 :: else fi;
#ifdef LATE_ANSWER
	if :: w[i].phase == HELD && w[i].ans == 2 -> w[i].late = 1 :: else fi;
#endif
	w[i].ans = 0
#else
	skip
#endif
}

/* Nothing is held; the next attempt has another nonce. */
inline drop(i) {
	dropAnswer(i);
	forgetNonce(i);
	w[i].phase = IDLE; w[i].code = 0; w[i].cur = 0; w[i].floor = 0; w[i].ceil = 0;
#ifdef FAILOVER
	w[i].dcur = 0;
#endif
#ifdef READBACK_TRUSTS_REQUEST
	w[i].asked = 0;
#endif
	skip
}

inline newGenerator(i) { w[i].at = 0; w[i].by = 0 }

/* Close, in the generator's critical section. floor becomes the lowest ceiling that may be
 * written from now on. */
inline stop(i) {
	dropAnswer(i);
	w[i].phase = CLOSING;
#if defined(RELEASE_IGNORES_FLOOR)
	w[i].floor = (w[i].at > 0);
#elif !defined(RELEASE_IGNORES_CLAIMS)
	w[i].floor = (w[i].floor || w[i].at > 0);
#endif
	if :: STOPPED(i) -> newGenerator(i) :: else fi
}

/* ---- the generator ---- */

#ifdef IGNORE_FLOOR
#define BELOW(f, t) false
#else
#define BELOW(f, t) ((f) && (t) < AFTER)
#endif
#ifdef IGNORE_CEILING
#define WITHIN(e) true
#else
#define WITHIN(e) (e)
#endif
#ifdef NEW_CODE_SAME_TICK
#define CONTINUES(i, on) (w[i].at < SEQS)
#else
#define CONTINUES(i, on) (w[i].at < SEQS && w[i].by == (on))
#endif

/* nextID, for a grant of code on, with floor f and ceiling e. */
inline claim(i, code_, floor_, ceil_) {
	on = code_; f = floor_; e = ceil_;
	if :: now = BEFORE :: now = AT :: now = AFTER fi;
	/* tick, sequence: the clock's tick if it is above the last one, else the last one with the
	 * next number, else the next tick. q counts from 1. */
	if
	:: now == AFTER -> ts = AFTER
	:: now <= AT && w[i].at == 0 && now == AT -> ts = AT; q = 1
	:: now <= AT && w[i].at == 0 && now == BEFORE ->
		if :: ts = BEFORE :: ts = AT; q = 1 fi
	:: now <= AT && w[i].at > 0 && CONTINUES(i, on) -> ts = AT; q = w[i].at+1
	:: now <= AT && w[i].at > 0 && !CONTINUES(i, on) -> ts = AFTER
#ifdef STEP_BACK_RESTARTS
	:: now == AT && w[i].at == PAST -> ts = AT; q = 1
#endif
#ifdef SEQUENCE_WRAPS
	:: now <= AT && w[i].at == SEQS -> ts = AT; q = 1
#endif
	fi;
	if
	:: BELOW(f, ts) -> ts = AFTER
	:: else
#ifdef FLOOR_WITHIN_AHEAD
	:: BELOW(f, ts) /* W is below the floor, and by no more than MaxAhead */
#endif
	fi;
	if
	:: ts == BEFORE /* claimed or not: nothing of W changes */
	:: ts != BEFORE && WITHIN(e) -> d_step {
		if
		:: ts == AT ->
			/* IDs rise: they are ordered by tick, code, sequence. */
			assert(w[i].at == 0 || (w[i].at <= SEQS && (on > w[i].by || (on == w[i].by && q > w[i].at))));
			/* No two claims share code, tick and sequence. */
			assert(on != 0 || !(used & (1 << q)));
			if :: on == 0 -> used = used | (1 << q) :: else fi;
			w[i].at = q; w[i].by = on
		:: else -> w[i].at = PAST
		fi;
		if :: w[i].at >= SEQS -> w[i].by = 0 :: else fi }
	:: ts != BEFORE -> /* refused: the ceiling, or a clock too far behind */
#ifdef REFUSAL_RESETS_SEQUENCE
		if :: w[i].at > 0 && w[i].at <= SEQS -> w[i].at = 1 :: else fi
#else
		skip
#endif
	fi;
	on = 0; f = 0; e = 0; now = 0; ts = 0; q = 0
}

/* ---- symmetry ---- */

#ifdef SYMMETRY
#ifdef FAILOVER
#define DCUR(j) w[j].dcur
#else
#define DCUR(j) 0
#endif
#define KEY(j) ((((((w[j].phase*2 + w[j].code)*2 + w[j].cur)*2 + w[j].floor)*2 + w[j].ceil)*8 + w[j].at)*2 + w[j].by + 4096*DCUR(j))
#ifdef PAUSES
#define PAUSED(j) ((((w[j].ans*2 + w[j].inside)*2 + w[j].gcode)*2 + w[j].gfloor)*2 + w[j].gceil)
#else
#define PAUSED(j) 0
#endif
#define UNORDERED(j) (KEY(j) > KEY(j+1) || (KEY(j) == KEY(j+1) && PAUSED(j) > PAUSED(j+1)))
#define PART(m, j) (((m) >> (2*((j)+1))) & 3)
inline swapFields(x, y) { k = x; x = y; y = k }
/* Workers j and j+1 change places if they are out of order. */
inline exchange(j) {
	if
	:: UNORDERED(j) ->
		swapFields(w[j].phase, w[j+1].phase); swapFields(w[j].code, w[j+1].code);
		swapFields(w[j].cur, w[j+1].cur); swapFields(w[j].floor, w[j+1].floor);
		swapFields(w[j].ceil, w[j+1].ceil); swapFields(w[j].at, w[j+1].at);
		swapFields(w[j].by, w[j+1].by);
#ifdef FAILOVER
		swapFields(w[j].dcur, w[j+1].dcur);
#endif
#ifdef PAUSES
		swapFields(w[j].ans, w[j+1].ans); swapFields(w[j].inside, w[j+1].inside);
		swapFields(w[j].gcode, w[j+1].gcode); swapFields(w[j].gfloor, w[j+1].gfloor);
		swapFields(w[j].gceil, w[j+1].gceil);
#endif
		k = 0;
		do
		:: k < CODES ->
			if
			:: r[k].nonce == j+1 -> r[k].nonce = j+2
			:: r[k].nonce == j+2 -> r[k].nonce = j+1
			:: else
			fi;
			r[k].way = (r[k].way & ~(15 << (2*(j+1)))) | (PART(r[k].way, j) << (2*(j+2))) | (PART(r[k].way, j+1) << (2*(j+1)));
#ifdef FAILOVER
			if
			:: r[k].dnonce == j+1 -> r[k].dnonce = j+2
			:: r[k].dnonce == j+2 -> r[k].dnonce = j+1
			:: else
			fi;
			r[k].dway = (r[k].dway & ~(15 << (2*(j+1)))) | (PART(r[k].dway, j) << (2*(j+2))) | (PART(r[k].dway, j+1) << (2*(j+1)));
#endif
			k++
		:: else -> break
		od;
		k = 0
	:: else
	fi
}
#if WORKERS == 2
#define ORDER d_step { exchange(0) }
#elif WORKERS == 3
#define ORDER d_step { exchange(0); exchange(1); exchange(0) }
#elif WORKERS == 4
#define ORDER d_step { exchange(0); exchange(1); exchange(2); exchange(0); exchange(1); exchange(0) }
#endif
#else
#define ORDER skip
#endif

/* ---- what can happen ---- */

proctype Run(byte i) {
	byte b, c, k, on, f, e, now, ts, q;
	do
	/* A write that was given up on lands. */
	:: d_step { (r[0].way & WAY(i+1, 0)) -> land(0, i+1, 0); ORDER }
	:: d_step { (r[0].way & WAY(i+1, 1)) -> land(0, i+1, 1); ORDER }
#if CODES > 1
	:: d_step { (r[1].way & WAY(i+1, 0)) -> land(1, i+1, 0); ORDER }
	:: d_step { (r[1].way & WAY(i+1, 1)) -> land(1, i+1, 1); ORDER }
#endif
#ifdef RENEW_ANY_VERSION
	:: d_step { r[0].nonce == i+1 && (r[0].old & WAY(i+1, 0)) -> land(0, i+1, 0) }
#endif
	/* The process is killed and started again. */
	:: d_step { newGenerator(i); drop(i);
#ifdef PAUSES
		w[i].inside = 0; w[i].gcode = 0; w[i].gfloor = 0; w[i].gceil = 0;
#endif
#ifdef LATE_ANSWER
		w[i].late = 0;
#endif
		ORDER }
	/* A code is taken, by the process or by a lease that has lost its own. */
	:: atomic { w[i].phase == IDLE -> acquire(i, 0); ORDER }
#if CODES > 1
	:: atomic { w[i].phase == IDLE -> acquire(i, 1); ORDER }
#endif
	:: d_step { w[i].phase == ACQUIRING -> drop(i); ORDER }
#ifdef CONFLICT_KEEPS_FLOOR
	:: atomic { w[i].phase == ACQUIRING && FREE(i) -> b = 1; send(i) }
#endif
	:: atomic { (w[i].phase == HELD || w[i].phase == ACQUIRING) && FREE(i) && KNOWS(i) -> renew(i); ORDER }
#ifdef FAILOVER
	:: atomic { w[i].phase != IDLE && FREE(i) && w[i].dcur -> sendStale(i); ORDER }
#endif
#ifdef RENEW_BLINDLY
	:: atomic { w[i].phase == HELD && FREE(i) -> b = 1; send(i) }
#endif
	:: d_step { w[i].phase != IDLE && FREE(i) && MINE(i) -> readBack(i); ORDER }
#ifdef PAUSES
	:: d_step { w[i].ans != 0 -> reveal(i, w[i].ans-1); w[i].ans = 0; ORDER }
	:: d_step { w[i].ans != 0 -> dropAnswer(i); ORDER }
#endif
#ifdef LATE_ANSWER_AFTER_RELEASE
	:: d_step { w[i].late && w[i].phase == CLOSING -> w[i].late = 0; w[i].phase = HELD; reveal(i, 1) }
#endif
#ifdef LATE_ANSWER_FOR_ANOTHER
	:: d_step { w[i].late && w[i].phase == HELD -> w[i].late = 0; reveal(i, 1) }
#endif
	/* Another owner has taken the code, or the clock has stepped: the generator goes on with
	 * the next grant. */
	:: d_step { w[i].phase == HELD -> drop(i); ORDER }
	/* Close. */
	:: d_step { w[i].phase == HELD && MAYSTOP(i) -> stop(i); ORDER }
	:: atomic { w[i].phase == CLOSING && FREE(i) && KNOWS(i) -> giveBack(i); ORDER }
#ifdef RELEASE_BLINDLY
	:: atomic { w[i].phase == CLOSING && FREE(i) -> giveBack(i) }
#endif
#ifdef GRANT_AFTER_RELEASE
	:: d_step { w[i].phase == CLOSING -> dropAnswer(i); w[i].phase = HELD }
#endif
	:: d_step { w[i].phase == CLOSING && MAYSTOP(i) -> newGenerator(i); drop(i); ORDER }
	/* Next. */
#ifdef PAUSES
	:: d_step { GRANTED(i) && !w[i].inside ->
		w[i].inside = 1; w[i].gcode = w[i].code; w[i].gfloor = w[i].floor; w[i].gceil = w[i].ceil; ORDER }
	:: atomic { w[i].inside -> claim(i, w[i].gcode, w[i].gfloor, w[i].gceil);
		d_step { w[i].inside = 0; w[i].gcode = 0; w[i].gfloor = 0; w[i].gceil = 0 }; ORDER }
#else
	:: atomic { GRANTED(i) -> claim(i, w[i].code, w[i].floor, w[i].ceil); ORDER }
#endif
	od
}

/* What belongs to no worker: the writes of the dead, and the operator. */
proctype Others() {
	byte k;
	do
	:: d_step { (r[0].way & WAY(0, 0)) -> land(0, 0, 0); ORDER }
	:: d_step { (r[0].way & WAY(0, 1)) -> land(0, 0, 1); ORDER }
#if CODES > 1
	:: d_step { (r[1].way & WAY(0, 0)) -> land(1, 0, 0); ORDER }
	:: d_step { (r[1].way & WAY(0, 1)) -> land(1, 0, 1); ORDER }
#endif
#ifdef FAILOVER
	:: d_step { r[0].lossy -> failOver(0); ORDER }
	:: d_step { r[0].lossy -> harden(0); ORDER }
#if CODES > 1
	:: d_step { r[1].lossy -> failOver(1); ORDER }
	:: d_step { r[1].lossy -> harden(1); ORDER }
#endif
#endif
	/* A backup is restored and fenced: above all that was revealed, and with a new nonce. */
	:: d_step { land(0, 0, 1); harden(0);
#ifdef SWAP_IGNORES_NONCE
		r[0].restored = 1;
#endif
		ORDER }
#if CODES > 1
	:: d_step { land(1, 0, 1); harden(1); ORDER }
#endif
#ifdef RECORD_DELETED
	:: d_step { r[0].ceil -> r[0].nonce = 0; r[0].ceil = 0; r[0].way = 0 }
#endif
	od
}

init {
	byte n;
	atomic {
		do :: n < WORKERS -> run Run(n); n++ :: else -> break od;
		run Others(); n = 0
	}
}
