use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use longshore_protocol::value::display::Display;
use longshore_protocol::value::turn::TurnReason;
use tokio::sync::{Barrier, watch};

use super::testing::{Bench, Entry, Probe, completed};
use crate::kernel::access::Access;
use crate::kernel::event::DomainEvent;
use crate::kernel::limits::DISPLAY_BYTES;
use crate::tool::Outcome;

/// Calls of one step, then an end.
fn step(calls: &[&str]) -> String {
    let calls: Vec<String> = calls
        .iter()
        .map(|call| format!("{{tool_call: {call}}}"))
        .collect();
    format!(
        "turns: [{{steps: [{}]}}, {{steps: [{{text: ok}}]}}]",
        calls.join(", ")
    )
}

/// A tool whose calls wait for one another: a turn that ends shows that so many ran at once.
fn meets(name: &'static str, n: usize, access: fn(std::path::PathBuf) -> Access) -> Probe {
    let barrier = Arc::new(Barrier::new(n));
    Probe::new(name, move |_, _| {
        let barrier = barrier.clone();
        async move {
            barrier.wait().await;
            Outcome::text("met")
        }
    })
    .touches(access)
}

#[tokio::test(start_paused = true)]
async fn calls_that_do_not_conflict_run_at_once() {
    for (access, paths) in [
        (
            Access::read as fn(std::path::PathBuf) -> Access,
            ["a", "a", "b"],
        ),
        (Access::read_write, ["a", "b", "c"]),
    ] {
        let calls = paths.map(|path| format!("{{name: Meet, args: {{path: {path}}}}}"));
        let script = step(&calls.each_ref().map(String::as_str));
        let mut bench = Bench::new(&script).with(meets("Meet", 3, access));
        completed(&bench.run("go").await);
        assert_eq!(
            bench.results(),
            [
                "result call_1 met",
                "result call_2 met",
                "result call_3 met"
            ]
        );
    }
}

/// A tool that notes when its calls begin and end, and ends each when told.
struct Held {
    log: Arc<Mutex<Vec<String>>>,
    open: watch::Sender<Vec<String>>,
}

impl Held {
    fn new(name: &'static str, access: fn(std::path::PathBuf) -> Access) -> (Self, Probe) {
        let held = Self {
            log: Arc::default(),
            open: watch::Sender::default(),
        };
        let (log, open) = (held.log.clone(), held.open.clone());
        let probe = Probe::new(name, move |args, _| {
            let (log, mut open) = (log.clone(), open.subscribe());
            let id = args["id"].as_str().unwrap().to_owned();
            async move {
                log.lock().unwrap().push(format!("{id} begins"));
                open.wait_for(|open| open.contains(&id)).await.unwrap();
                log.lock().unwrap().push(format!("{id} ends"));
                Outcome::text(id)
            }
        });
        (held, probe.touches(access))
    }

    fn end(&self, id: &str) {
        self.open.send_modify(|open| open.push(id.into()));
    }

    fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }
}

#[tokio::test(start_paused = true)]
async fn conflicting_calls_keep_their_order_and_others_overtake() {
    let (held, probe) = Held::new("Hold", Access::read_write);
    let script = step(&[
        "{name: Hold, args: {id: w1, path: f}}",
        "{name: Hold, args: {id: w2, path: F}}",
        "{name: Hold, args: {id: other, path: g}}",
        "{name: Hold, args: {id: w3, path: f}}",
    ]);
    let mut bench = Bench::new(&script).with(probe);
    let sink = bench.sink.clone();
    let (outcome, ()) = tokio::join!(bench.run("go"), async {
        sink.until("tool/running call_3").await;
        held.end("other");
        sink.until("tool/completed call_3 ok").await;
        // The last one would fit now, but must not overtake the one it conflicts with.
        assert!(!held.log().contains(&"w3 begins".to_owned()));
        for (id, line) in [("w1", "tool/running call_2"), ("w2", "tool/running call_4")] {
            held.end(id);
            sink.until(line).await;
        }
        held.end("w3");
    });
    completed(&outcome);
    assert_eq!(
        held.log(),
        [
            "w1 begins",
            "other begins",
            "other ends",
            "w1 ends",
            "w2 begins",
            "w2 ends",
            "w3 begins",
            "w3 ends"
        ]
    );
    let results: Vec<String> = bench.results();
    assert_eq!(
        results,
        [
            "result call_1 w1",
            "result call_2 w2",
            "result call_3 other",
            "result call_4 w3"
        ]
    );
    assert_eq!(
        bench.sink.only(&["tool/completed"]),
        [
            "tool/completed call_3 ok",
            "tool/completed call_1 ok",
            "tool/completed call_2 ok",
            "tool/completed call_4 ok"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_read_and_an_edit_of_one_file_are_ordered_by_the_model() {
    let mut bench = Bench::new(&step(&[
        "{name: Read, args: {path: a.txt}}",
        r#"{name: Edit, args: {path: a.txt, old_string: "old", new_string: "new"}}"#,
        "{name: Read, args: {path: a.txt}}",
    ]));
    bench.put("a.txt", "old\n");
    completed(&bench.run("go").await);
    let results = bench.results();
    assert!(
        results[0].contains("old") && !results[0].contains("new"),
        "{results:?}"
    );
    assert!(results[1].starts_with("result"), "{results:?}");
    assert!(
        results[2].contains("new"),
        "the same call again, but what it sees was changed: {results:?}"
    );
    assert_eq!(bench.text("a.txt"), "new\n");
}

#[tokio::test(start_paused = true)]
async fn edits_of_one_file_in_a_step_are_all_made_in_order() {
    let edits = [
        ("50", "FIFTY"),
        ("75", "SEVENTY"),
        ("11", "ELEVEN"),
        ("99", "ALMOST"),
        ("FIFTY", "fifty"),
        ("23", "twenty-three"),
    ];
    let calls = edits.map(|(old, new)| {
        format!(
            r#"{{name: Edit, args: {{path: n.txt, old_string: "{old}\n", new_string: "{new}\n"}}}}"#
        )
    });
    let mut bench = Bench::new(&step(&calls.each_ref().map(String::as_str)));
    let numbers: Vec<String> = (1..=100).map(|n| n.to_string()).collect();
    let numbers = numbers.join("\n") + "\n";
    bench.put("n.txt", &numbers);
    completed(&bench.run("go").await);
    let expected = edits.iter().fold(numbers, |text, (old, new)| {
        text.replace(&format!("\n{old}\n"), &format!("\n{new}\n"))
    });
    assert_eq!(bench.text("n.txt"), expected);
    let completed: Vec<String> = (1..=6)
        .map(|n| format!("tool/completed call_{n} ok"))
        .collect();
    assert_eq!(bench.sink.only(&["tool/completed"]), completed);
}

#[tokio::test(start_paused = true)]
async fn a_search_waits_for_writes_below_its_root_alone() {
    let (writes, write) = Held::new("Write1", Access::read_write);
    let (searches, search) = Held::new("Search", Access::search);
    let mut bench = Bench::new("turns: [{steps: [{text: ok}]}]")
        .with(write)
        .with(search);
    let outside = bench.ws.parent().unwrap().join("c");
    let script = step(&[
        "{name: Write1, args: {id: inside, path: a}}",
        "{name: Search, args: {id: search, path: .}}",
        &format!(
            "{{name: Write1, args: {{id: outside, path: {}}}}}",
            outside.display()
        ),
        "{name: Write1, args: {id: late, path: b}}",
    ]);
    bench.model = Arc::new(super::testing::Spy::new(&script));
    let sink = bench.sink.clone();
    let (outcome, ()) = tokio::join!(bench.run("go"), async {
        sink.until("tool/running call_3").await;
        assert!(searches.log().is_empty(), "it waits");
        writes.end("inside");
        sink.until("tool/running call_2").await;
        assert_eq!(
            writes.log(),
            ["inside begins", "outside begins", "inside ends"]
        );
        searches.end("search");
        sink.until("tool/running call_4").await;
        writes.end("outside");
        writes.end("late");
    });
    completed(&outcome);
}

#[tokio::test(start_paused = true)]
async fn a_title_says_where_a_link_really_leads() {
    let mut bench = Bench::new(&step(&["{name: Read, args: {path: \"a\\nb\"}}"]));
    bench.put("real.md", "world\n");
    std::os::unix::fs::symlink("real.md", bench.ws.join("a\nb")).unwrap();
    completed(&bench.run("go").await);
    let title = bench.sink.entries().iter().find_map(|entry| match entry {
        Entry::Durable(DomainEvent::ToolStarted { title, .. }) => Some(title.clone()),
        _ => None,
    });
    assert_eq!(title.unwrap(), "Read a\\nb → real.md");
}

#[tokio::test(start_paused = true)]
async fn a_drawing_is_cut_whatever_the_tool() {
    let long = "x".repeat(DISPLAY_BYTES + 1);
    let drawn = Display::Text {
        text: long,
        truncated: false,
    };
    let mut bench =
        Bench::new(&step(&["{name: Big, args: {}}"])).with(Probe::new("Big", move |_, _| {
            let drawn = drawn.clone();
            async move { Outcome::text("x").with_display(drawn) }
        }));
    completed(&bench.run("go").await);
    let display = bench.sink.entries().iter().find_map(|entry| match entry {
        Entry::Durable(DomainEvent::ToolCompleted { display, .. }) => display.clone(),
        _ => None,
    });
    let Some(Display::Text { text, truncated }) = display else {
        panic!("{display:?}");
    };
    assert!(truncated && text.len() == DISPLAY_BYTES);
}

#[tokio::test(start_paused = true)]
async fn calls_that_touch_anything_run_one_after_the_other() {
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (now, peak) = (running.clone(), most.clone());
    let probe = Probe::new("Alone", move |_, _| {
        let (now, peak) = (now.clone(), peak.clone());
        async move {
            peak.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            now.fetch_sub(1, Ordering::SeqCst);
            Outcome::text("x")
        }
    });
    let calls = ["{name: Alone, args: {}}"; 4];
    let mut bench = Bench::new(&step(&calls)).with(probe.alone());
    completed(&bench.run("go").await);
    assert_eq!((most.load(Ordering::SeqCst), bench.results().len()), (1, 4));
}

#[tokio::test(start_paused = true)]
async fn bad_calls_are_results_and_their_siblings_are_untouched() {
    let strict = serde_json::json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"],
        "additionalProperties": false});
    let mut bench = Bench::new(&step(&[
        "{name: Good, args: {n: 1}}",
        "{name: Bads, args: {n: 1}}",
        "{name: Good, args: '{\"n\": 1'}",
        "{name: Good, args: {}}",
        "{name: Panic, args: {}}",
        "{name: Early, args: {panic_early: true}}",
        "{name: Good, args: {n: 2}}",
        "{name: Good, args: {n: secret-42, m: 1}}",
        "{name: Broken, args: {}}",
    ]))
    .with(
        Probe::new("Broken", |_, _| async { Outcome::text("never") })
            .parameters(serde_json::json!({"type": 5})),
    )
    .with(
        Probe::new("Good", |args, _| async move {
            Outcome::text(format!("n is {}", args["n"]))
        })
        .parameters(strict),
    )
    .with(Probe::new("Panic", |_, _| async {
        panic!("as the test wants it")
    }))
    .with(Probe::new("Early", |_, _| async { Outcome::text("never") }));
    completed(&bench.run("go").await);
    let results = bench.results();
    for (result, (start, words)) in results.iter().zip([
        ("result call_1", "n is 1"),
        ("error call_2", "no tool named Bads"),
        ("error call_3", "not valid"),
        ("error call_4", "`n` is missing"),
        ("error call_5", "internal error"),
        ("error call_6", "internal error"),
        ("result call_7", "n is 2"),
        (
            "error call_8",
            "/n: must be an integer, not a string; unexpected `m`",
        ),
        ("error call_9", "its schema is broken"),
    ]) {
        assert!(
            result.starts_with(start) && result.contains(words),
            "{result}"
        );
        assert!(!result.contains("secret"), "no value is echoed: {result}");
    }
    assert_eq!(results.len(), 9);
    let started = bench.sink.only(&["tool/started"]);
    assert_eq!(started.len(), 9, "each is known to hosts");
    assert_eq!(bench.sink.only(&["tool/running"]).len(), 3);
}

#[tokio::test(start_paused = true)]
async fn the_same_look_twice_in_a_step_is_taken_once() {
    let count = Arc::new(AtomicUsize::new(0));
    for (dedupes, n_runs, fails) in [(true, 1, false), (true, 1, true), (false, 2, false)] {
        count.store(0, Ordering::SeqCst);
        let counted = count.clone();
        let probe = Probe::new("Look", move |_, _| {
            counted.fetch_add(1, Ordering::SeqCst);
            async move {
                if fails {
                    Outcome::failed("no")
                } else {
                    Outcome::text("yes").with_note("by the way")
                }
            }
        });
        let probe = if dedupes { probe.dedupes() } else { probe };
        let calls = [
            "{name: Look, args: {a: 1, b: {c: 2, d: 3}}}",
            "{name: Look, args: {b: {d: 3, c: 2}, a: 1}}",
        ];
        let mut bench = Bench::new(&step(&calls)).with(probe);
        completed(&bench.run("go").await);
        assert_eq!(count.load(Ordering::SeqCst), n_runs);
        let results = bench.results();
        let text = |n: usize| {
            results[n]
                .split_once(&format!("call_{}", n + 1))
                .unwrap()
                .1
                .to_owned()
        };
        assert_eq!(text(0), text(1), "note and all");
        assert_eq!(results[0].starts_with("error"), fails);
    }
}

#[tokio::test(start_paused = true)]
async fn long_output_is_kept_in_a_file() {
    let probe = Probe::new("Big", |_, _| async { Outcome::text("x".repeat(60_000)) });
    let mut bench = Bench::new(&step(&["{name: Big, args: {}}"])).with(probe);
    completed(&bench.run("go").await);
    let result = &bench.results()[0];
    assert!(
        result.len() < 3_000 && result.contains("60000 characters"),
        "{result}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_fault_of_a_tool_ends_the_turn_and_what_runs_with_it() {
    let fault = || {
        crate::kernel::fault::Fault::new(longshore_protocol::error::ErrorKind::StorageFull, "full")
    };
    let mut bench = Bench::new(&step(&[
        "{name: Touch, args: {path: f, hangs: true}}",
        "{name: Touch, args: {path: f}}",
        "{name: Fault, args: {}}",
        "{name: Touch, args: {path: f}}",
    ]))
    .with(Probe::new("Fault", move |_, _| async move {
        Outcome {
            fault: Some(fault()),
            ..Outcome::failed("full")
        }
    }))
    .with(
        Probe::new("Touch", |args, _| async move {
            if args.get("hangs").is_some() {
                std::future::pending::<()>().await;
            }
            Outcome::text("ran")
        })
        .touches(Access::read_write),
    );
    let outcome = bench.run("go").await;
    assert_eq!(
        (outcome.reason, outcome.error.unwrap().message.as_str()),
        (TurnReason::Failed, "full")
    );
    let results = bench.results();
    assert_eq!(results.len(), 4);
    assert!(
        results[0].contains("may have had part of its effect"),
        "{results:?}"
    );
    assert!(
        results[1].contains("was not run") && results[3].contains("was not run"),
        "{results:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_checklist_is_the_agents() {
    let mut bench = Bench::new(&step(&[
        "{name: TodoList, args: {todos: [{title: a, status: done}]}}",
    ]));
    completed(&bench.run("go").await);
    assert_eq!(bench.agent.todos.len(), 1);
    assert_eq!(bench.board.get().todos, bench.agent.todos);
    assert_eq!(
        bench.sink.only(&["todo/", "tool/completed"]),
        ["todo/updated 1", "tool/completed call_1 ok"]
    );
}
