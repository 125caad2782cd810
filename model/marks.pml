/* The high-water mark of a static code, watched through one tick W: lease.pml tells how. Of
 * a mark, "1" says that it is above W.
 *
 * Processes share one code. LOCK is the file: an exclusive lock that ends with its process,
 * one writer, and a machine that may lose what was written and not yet synced. Without it the
 * database: whoever opens the code supersedes the owner before, a write names the session
 * that sends it, lands at any time or never, and changes nothing once another session owns
 * the row.
 *
 * When a process may open, how long it waits for its clock and how far ahead the mark is set
 * is left open: it may be at any time, not at all, and any distance.
 */
#ifndef PROCESSES
#define PROCESSES 3 /* at most 6 */
#endif
#ifndef SEQS
#define SEQS 2
#endif

#ifdef MARK_NOT_COMPARED_WITH_CLAIM
#define PAST (SEQS+1)
#else
#define PAST SEQS
#endif

#define BEFORE 0
#define AT 1
#define AFTER 2

/* What became of the Advance that a process waits for. */
#define NONE 0
#define WRITTEN 1 /* to be seen by others, but not durable yet */
#define DURABLE 2

typedef Process {
	unsigned has : 1;    
	unsigned floor : 1;   /* the mark as opened */
	unsigned mark : 1;    /* as revealed: claims stay below it */
	unsigned advance : 2;
	unsigned at : 3;      /* the last claim, as in lease.pml */
	unsigned way : 1;     /* an Advance above W that was given up on is under way */
}

Process p[PROCESSES];
unsigned mark : 1;    /* the stored mark, as it is read */
unsigned durable : 1; /* the one that is left when the machine loses its power */
unsigned owner : 3;   /* who has the lock, or whose session owns the row; 0: nobody */
unsigned way : 1;     /* what a dead owner, still in the row, has under way: an Advance above W, */
unsigned closing : 2; /* and its Close: 1 + the mark that that writes */
byte used;

/* A mark in the store is never below one revealed to a generator that has not stopped. */
inline checkMarks() {
#ifdef IDS_ONLY
	skip
#else
	k = 0;
	do
	:: k < PROCESSES -> assert(!(p[k].has && p[k].mark) || durable); k++
	:: else -> break
	od;
	k = 0
#endif
}

/* The stored mark becomes b, and durable unless it is a file's that is not synced yet. */
inline store(b) {
	mark = b;
#ifndef LOCK
	durable = b;
#endif
	skip
}

#ifdef LOCK
#ifdef NO_LOCK
#define MAYOPEN true
#else
#define MAYOPEN (owner == 0)
#endif
#define MAYWRITE(i) true
#else
#define MAYOPEN true
#ifdef NO_LOCK
#define MAYWRITE(i) true
#else
#define MAYWRITE(i) (owner == i+1)
#endif
#endif

inline open(i) {
	p[i].has = 1;
	owner = i+1; way = 0; closing = 0;
	k = 0;
#ifndef NO_LOCK
	do /* what others have under way names a session that is gone */
	:: k < PROCESSES -> p[k].way = 0; k++
	:: else -> break
	od;
	k = 0;
#endif
	durable = mark; /* the file is synced before it is believed */
	p[i].floor = mark;
#ifdef MARK_CHECKED_ONLY_AT_START /* the clock was above it, once */
	p[i].floor = 0;
#endif
#ifdef DAMAGED_IS_FRESH
	if :: p[i].floor = 0 :: skip fi
#endif
}

/* An Advance to a mark above W arrives. One to a lower mark changes nothing. */
inline raise() { store(1) }

/* The process is gone; what it has sent may still land, under the name of a dead owner. */
inline leave(i) {
#ifdef LOCK
	if :: owner == i+1 -> owner = 0 :: else fi;
#else
	if
	:: owner == i+1 -> owner = PROCESSES+1; way = p[i].way
	:: else
	fi;
#endif
#ifndef NO_LOCK
	p[i].way = 0;
#endif
	p[i].has = 0; p[i].floor = 0; p[i].mark = 0; p[i].advance = NONE; p[i].at = 0
}

/* What Close may write: the mark as opened, or just above the last claim. */
inline unused(i) {
	b = (p[i].floor || p[i].at > 0);
#ifdef CLOSE_IGNORES_CLAIMS
	b = p[i].floor;
#endif
#ifdef CLOSE_IGNORES_OPENED
	b = (p[i].at > 0);
#endif
	skip
}

#ifdef ADVANCE_AFTER_USE
#define WITHIN(i) true
#elif defined(MARK_NOT_COMPARED_WITH_CLAIM)
#define WITHIN(i) (p[i].mark || now == BEFORE) /* the clock is below the mark, the claim ahead of the clock */
#else
#define WITHIN(i) p[i].mark
#endif
#define BELOW(i, t) (p[i].floor && (t) < AFTER)

/* nextID, as in lease.pml. */
inline claim(i) {
	if :: now = BEFORE :: now = AT :: now = AFTER fi;
	if
	:: now == AFTER -> ts = AFTER
	:: now == AT && p[i].at == 0 -> ts = AT; q = 1
	:: now == BEFORE && p[i].at == 0 ->
		if :: ts = BEFORE :: ts = AT; q = 1 fi
	:: now <= AT && p[i].at > 0 && p[i].at < SEQS -> ts = AT; q = p[i].at+1
	:: now <= AT && p[i].at >= SEQS -> ts = AFTER
	fi;
	if :: BELOW(i, ts) -> ts = AFTER :: else fi;
	if
	:: ts == BEFORE
	:: ts != BEFORE && WITHIN(i) -> d_step {
		if
		:: ts == AT ->
			assert(p[i].at < q); /* IDs rise. */
			assert(!(used & (1 << q))); /* No two claims share tick and sequence. */
			used = used | (1 << q);
			p[i].at = q
		:: else -> p[i].at = PAST
		fi }
	:: ts != BEFORE
	fi;
	now = 0; ts = 0; q = 0
}

proctype Run(byte i) {
	byte b, k, now, ts, q;
	do
	:: atomic { !p[i].has && MAYOPEN -> open(i) }
	/* Advance: written, synced, acknowledged, revealed. */
	:: d_step { p[i].has && p[i].advance == NONE && MAYWRITE(i) -> raise(); p[i].advance = WRITTEN }
#ifdef MARK_NOT_MONOTONE
	:: d_step { p[i].has && p[i].advance == NONE && MAYWRITE(i) -> store(0); durable = 0; checkMarks() }
#endif
	:: d_step { p[i].advance == WRITTEN -> durable = mark; p[i].advance = DURABLE }
	:: d_step { p[i].advance == DURABLE -> p[i].mark = 1; p[i].advance = NONE; checkMarks() }
#ifdef REVEAL_BEFORE_SYNC
	:: d_step { p[i].advance == WRITTEN -> p[i].mark = 1; p[i].advance = NONE }
#endif
#ifdef REVEAL_UNACKNOWLEDGED
	:: d_step { p[i].has -> p[i].mark = 1; checkMarks() }
#endif
	:: d_step { p[i].advance != NONE -> p[i].advance = NONE } /* it fails, for all the process knows */
#ifndef LOCK
	:: d_step { p[i].has && p[i].advance == NONE && !p[i].way -> p[i].way = 1 }
	:: d_step { p[i].way && MAYWRITE(i) -> raise(); p[i].way = 0 }
#endif
	/* Close: stop, write the mark down, leave. */
	:: d_step { p[i].has && MAYWRITE(i) -> unused(i); store(b); b = 0;
#ifdef CLOSE_BEFORE_STOP
		if :: owner == i+1 -> owner = 0 :: else fi; p[i].way = 0;
#else
		leave(i); owner = 0; way = 0; closing = 0;
#endif
		checkMarks() }
#ifndef LOCK
	:: d_step { p[i].has && owner == i+1 -> unused(i); leave(i); closing = 1+b; b = 0 } /* it is not waited for */
#endif
	/* The process is killed. */
	:: d_step { p[i].has -> leave(i) }
	:: atomic { p[i].has -> claim(i) }
	od
}

proctype Others() {
	byte k;
	do
#ifdef LOCK
	/* The machine loses its power. */
	:: d_step { mark = durable; owner = 0; k = 0;
		do
		:: k < PROCESSES -> leave(k); k++
		:: else -> break
		od;
		k = 0 }
#else
	/* A dead owner's writes land. */
	:: d_step { owner == PROCESSES+1 && way -> raise(); way = 0 }
	:: d_step { owner == PROCESSES+1 && closing != 0 -> store(closing-1); way = 0; closing = 0; owner = 0; checkMarks() }
#endif
	od
}

init {
	byte n;
	atomic {
		do :: n < PROCESSES -> run Run(n); n++ :: else -> break od;
		run Others(); n = 0
	}
}
