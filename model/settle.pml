/* A store that forgets, and Settle.
 *
 * Elsewhere clocks are arbitrary. Settle is the one thing that rests on them: the store may
 * come back with an older state, and who goes on from that must stay above what a forgotten
 * owner was given. So time is real here, in ticks from 0 to just after the watched tick W.
 * A clock reads up to SKEW ticks more than it, a write lands up to AGE ticks after the clock
 * was read for it, and any earlier state may come back. With
 *
 *     Settle = TTL + MAXSKEW
 *
 * from the answer on, not from the reading before, no two grants overlap as long as
 * SKEW <= MAXSKEW; but an owner whose ceiling has passed by its clock must settle too when it
 * renews. Without that rule (RENEWAL_DOES_NOT_SETTLE) it holds only for a store that loses at most
 * LOSS ticks, SKEW + LOSS <= MAXSKEW.
 *
 * What is above W is all the same and is kept as W+1. One code. Versions and nonces are
 * numbers here, because a restored record has those that it had: at most WRITES versions and
 * ATTEMPTS nonces.
 */
#define TTL 2
#define MAXSKEW 2
#ifndef SKEW
#define SKEW 1
#endif
#ifndef AGE
#define AGE 1
#endif
#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef WRITES
#define WRITES 4
#endif
#ifndef ATTEMPTS
#define ATTEMPTS 3
#endif

#ifdef LOSS
#define LIMITED true
#else
#define LOSS 0
#define LIMITED false
#endif

#ifdef NO_SETTLE
#define SETTLE 0
#else
#define SETTLE (TTL+MAXSKEW)
#endif
#ifdef CLOCKS_TOO_FAR_APART
#undef SKEW
#define SKEW (MAXSKEW+1)
#endif
#ifdef CLOCK_READ_LONG_AGO
#undef AGE
#define AGE (MAXSKEW+1)
#define ANSWERED now
#else
#define ANSWERED answered
#endif
#define W (TTL+MAXSKEW+TTL+4) /* far enough from the start for all to have happened before */

#define MAX(x, y) ((x) > (y) -> (x) : (y))
#define CLIP(x) ((x) > W+1 -> W+1 : (x))

#if defined(RENEWAL_DOES_NOT_SETTLE) || defined(NO_SETTLE)
#define EXPIRED(i) false
#else
#define EXPIRED(i) (answered >= w[i].ceil)
#endif

typedef Record { byte version; byte nonce; byte ceil }
typedef Worker {
	byte nonce; /* 0: it holds nothing */
	byte version;
	byte floor, ceil;
	bit done;   /* it has claimed W under this grant */
}

Record r, backup;
Worker w[WORKERS];
byte time;   /* no clock that is read now reads less */
byte nonces; /* made so far */
byte old;    /* how many ticks the backup is, unless that does not matter */
bit used;

/* What the clock read for a write that lands now, and what it reads when that is answered. */
inline readClock() {
	now = (time > AGE -> time-AGE : 0);
	do
	:: now < time+SKEW -> now++
	:: break
	od;
	answered = time;
	do
	:: answered < time+SKEW -> answered++
	:: break
	od
}

inline drop(i) { w[i].nonce = 0; w[i].version = 0; w[i].floor = 0; w[i].ceil = 0; w[i].done = 0 }

proctype Run(byte i) {
	byte now, answered;
	do
	/* take: a code whose ceiling has passed by the local clock. */
	:: atomic { w[i].nonce == 0 && nonces < ATTEMPTS && r.version < WRITES ->
		readClock();
		if
		:: r.ceil <= now -> d_step {
#ifdef SETTLE_NEVER_USED_ONLY
			w[i].floor = (r.version == 0 -> CLIP(ANSWERED+SETTLE) : r.ceil);
#else
			w[i].floor = (SETTLE > 0 -> CLIP(MAX(r.ceil, ANSWERED)+SETTLE) : r.ceil);
#endif
			nonces++;
			r.version++; r.nonce = nonces; r.ceil = CLIP(MAX(r.ceil, now+TTL));
			w[i].nonce = nonces; w[i].version = r.version; w[i].ceil = r.ceil }
		:: else
		fi;
		now = 0; answered = 0 }
	/* renew */
	:: atomic { w[i].nonce != 0 && r.version == w[i].version && r.nonce == w[i].nonce && r.version < WRITES ->
		readClock();
		skip; /* a loop may not end in a d_step */
		d_step {
			if
			:: EXPIRED(i) -> w[i].floor = MAX(w[i].floor, CLIP(answered+SETTLE))
			:: else
			fi;
			r.version++; r.ceil = CLIP(MAX(w[i].ceil, now+TTL));
			w[i].version = r.version; w[i].ceil = r.ceil };
		now = 0; answered = 0 }
	/* Lost; or the read-back shows a lower version; or killed. */
	:: d_step { w[i].nonce != 0 -> drop(i) }
	/* A claim of W. One generator has it once; if another has it too, two IDs are equal. */
	:: d_step { w[i].nonce != 0 && !w[i].done && w[i].floor <= W && w[i].ceil > W -> assert(!used); used = 1; w[i].done = 1 }
	od
}

inline backUp() { backup.version = r.version; backup.nonce = r.nonce; backup.ceil = r.ceil; old = 0 }

proctype Others() {
	do
	:: d_step { time <= W ->
		time++;
		if
		:: LIMITED && old >= LOSS -> backUp() /* the one before is too old */
		:: LIMITED && old < LOSS -> old++
		:: !LIMITED
		fi }
	:: d_step { backUp() }
	/* The store forgets. */
	:: d_step { r.version = backup.version; r.nonce = backup.nonce; r.ceil = backup.ceil }
	od
}

init {
	byte n;
	atomic {
		do :: n < WORKERS -> run Run(n); n++ :: else -> break od;
		run Others(); n = 0
	}
}
