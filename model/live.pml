/* Who lives issues. A run without faults, after any with a few.
 *
 * Time is real here, and endless: a ceiling is kept as the ticks that are left of it. All
 * clocks are right. Every worker has a caller that calls Next in each tick; a worker does
 * what is due before the next tick, and an answer takes at most DELAY ticks. Only the first
 * LOSSES requests or answers are lost, and at the start the codes are held for a while by
 * workers that died.
 *
 * Checked: worker 0 issues again and again, for ever (workers are alike). Without losses,
 * also: once it has a code, and its floor has passed, it is never refused.
 */
#ifndef WORKERS
#define WORKERS 2 /* or 3 */
#endif
#ifndef CODES
#define CODES 2 /* or 3 */
#endif
#ifndef LOSSES
#define LOSSES 2
#endif
#ifndef SETTLE
#define SETTLE 0
#endif
#define TTL 6
#define RENEW 2
#define DELAY 1

#define IDLE 0
#define WAITING 1 /* for the answer to an acquire */
#define HELD 2

/* What is under way, and is waited for. */
#define NONE 0
#define SWAP 1
#define READ 2

typedef Record { byte nonce; byte left }
typedef Worker {
	byte phase;
	byte code;
	bit cur;     /* the version that it knows is the present one */
	byte left;   /* ticks to the ceiling that was revealed */
	byte floor;  /* ticks to the floor */
	byte since;  /* ticks since the last renewal was sent */
	byte busy;
	byte age;    /* ticks since what is under way was sent */
	bit answer;  /* there will be an answer: not lost, and no conflict */
	bit failed;  /* the last attempt to renew: try again soon */
	bit called;  /* in this tick */
}

Record r[CODES];
Worker w[WORKERS];
byte losses = LOSSES;
bit issued; /* worker 0 has, in this tick */

#define FREE(c) (r[c].left == 0 && TAKEABLE(c))
#ifdef DEAD_OWNERS_STAY
#define TAKEABLE(c) (r[c].nonce == 0)
#else
#define TAKEABLE(c) true
#endif
#if CODES > 2
#define SOMEFREE (FREE(0) || FREE(1) || FREE(2))
#else
#define SOMEFREE (FREE(0) || FREE(1))
#endif

/* The record of code c is written: versions known before are old. */
inline land(c, n, ticks) {
	r[c].nonce = n;
	r[c].left = ticks;
	k = 0;
	do
	:: k < WORKERS -> if :: w[k].code == c -> w[k].cur = 0 :: else fi; k++
	:: else -> break
	od;
	k = 0
}

inline drop(i) {
	w[i].phase = IDLE; w[i].code = 0; w[i].cur = 0; w[i].left = 0; w[i].floor = 0; w[i].since = 0;
	w[i].busy = NONE; w[i].age = 0; w[i].answer = 0; w[i].failed = 0
}

/* A swap is sent, of so many ticks. It lands, and is answered; or the request or the answer
 * is lost. */
inline swap(i, ticks) {
	c = w[i].code;
	w[i].busy = SWAP; w[i].age = 0;
	if
	:: d_step { land(c, i+1, ticks); w[i].cur = 1; w[i].answer = 1 }
	:: losses > 0 -> losses--; w[i].answer = 0
	:: losses > 0 -> d_step { losses--; land(c, i+1, ticks); w[i].answer = 0 }
	fi;
	c = 0
}

inline acquire(i) {
	w[i].phase = WAITING; w[i].floor = SETTLE; w[i].since = 0;
	swap(i, TTL)
}

inline reveal(i) {
	w[i].left = r[w[i].code].left;
#ifdef SETTLE_AGAIN
	w[i].floor = SETTLE;
#endif
	w[i].phase = HELD; w[i].failed = 0; w[i].busy = NONE; w[i].age = 0; w[i].answer = 0
}

#ifdef SUSPENDED_FOR_EVER
#define MAYRENEW(i) (w[i].left > 0)
#else
#define MAYRENEW(i) true
#endif
#define DUE(i) (w[i].since >= RENEW || (w[i].failed && w[i].since > 0))

proctype Run(byte i) {
	byte c, k;
	do
	/* Next. */
	:: d_step { !w[i].called ->
		w[i].called = 1;
		if
		:: w[i].phase == HELD && w[i].left > 0 && w[i].floor == 0 -> if :: i == 0 -> issued = 1 :: else fi
		:: else
		fi;
		assert(LOSSES > 0 || w[i].phase != HELD || w[i].left > 0) }
	/* Acquire a code that is free. */
	:: atomic { w[i].phase == IDLE && FREE(0) -> w[i].code = 0; acquire(i) }
	:: atomic { w[i].phase == IDLE && FREE(1) -> w[i].code = 1; acquire(i) }
#if CODES > 2
	:: atomic { w[i].phase == IDLE && FREE(2) -> w[i].code = 2; acquire(i) }
#endif
	/* Renew, when it is due. A version that is known to be old is a conflict. */
	:: atomic { w[i].phase == HELD && w[i].busy == NONE && DUE(i) && MAYRENEW(i) ->
		w[i].since = 0;
		if
		:: w[i].cur -> swap(i, TTL)
		:: else -> w[i].busy = SWAP; w[i].age = DELAY; w[i].answer = 0
		fi }
	/* The answer; or none in time: read back. */
	:: d_step { w[i].busy == SWAP && w[i].answer -> reveal(i) }
#ifndef ANSWER_WAITED_FOR
	:: d_step { w[i].busy == SWAP && !w[i].answer && w[i].age == DELAY ->
		w[i].age = 0;
#ifdef NOT_READ_BACK
		if :: w[i].phase == HELD -> w[i].busy = NONE; w[i].failed = 1 :: else -> w[i].busy = READ fi
#else
		w[i].busy = READ
#endif
	}
#endif
	:: atomic { w[i].busy == READ ->
		if
		/* It is only known which version to present: again, and soon. */
		:: r[w[i].code].nonce == i+1 && w[i].phase == WAITING -> w[i].cur = 1; swap(i, r[w[i].code].left)
		:: d_step { r[w[i].code].nonce == i+1 && w[i].phase == HELD -> w[i].cur = 1; w[i].busy = NONE; w[i].age = 0; w[i].failed = 1 }
		:: r[w[i].code].nonce != i+1 -> drop(i)
		:: losses > 0 && w[i].phase == HELD -> losses--; w[i].busy = NONE; w[i].age = 0; w[i].failed = 1
		:: losses > 0 && w[i].phase == WAITING -> losses--; drop(i)
		fi }
	od
}

/* What a worker has to do in this tick is done. */
#define READY(i) (w[i].called && \
	!(w[i].phase == IDLE && SOMEFREE) && \
	!(w[i].busy != NONE && w[i].age >= DELAY && SOMETHING(i)) && \
	!(w[i].phase == HELD && w[i].busy == NONE && DUE(i) && MAYRENEW(i)))
#ifdef ANSWER_WAITED_FOR
#define SOMETHING(i) w[i].answer
#else
#define SOMETHING(i) true
#endif
#if WORKERS > 2
#define ALLREADY (READY(0) && READY(1) && READY(2))
#else
#define ALLREADY (READY(0) && READY(1))
#endif
#define LESS(x) x = (x > 0 -> x-1 : 0)
#define MORE(x, max) x = (x < max -> x+1 : max)

proctype Time() {
	byte k;
	do
	:: d_step { ALLREADY ->
		issued = 0;
		do :: k < CODES -> LESS(r[k].left); k++ :: else -> break od;
		k = 0;
		do
		:: k < WORKERS ->
			w[k].called = 0;
			LESS(w[k].left); LESS(w[k].floor); MORE(w[k].since, RENEW);
			if :: w[k].busy != NONE -> MORE(w[k].age, DELAY) :: else fi;
			k++
		:: else -> break
		od;
		k = 0 }
	od
}

init {
	byte n;
	atomic {
		do
		:: n < CODES ->
			if :: r[n].left = 0 :: r[n].left = 1; r[n].nonce = WORKERS+1 :: r[n].left = TTL; r[n].nonce = WORKERS+1 fi;
			n++
		:: else -> break
		od;
		n = 0;
		do :: n < WORKERS -> run Run(n); n++ :: else -> break od;
		run Time(); n = 0
	}
}

ltl live { []<> issued }
