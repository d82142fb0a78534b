//! `hardmeter --help`: the commands by the part of the product that they belong to, each part with its page.
//!
//! The names of parts are those of the folders, of the pages in docs/ and of the headings in the help. The
//! description of a command is taken from the command itself, so that the list cannot differ from `hardmeter
//! COMMAND --help`.

use std::fmt::Write;

/// One part of the product: its name, the question it answers, its page, its commands.
struct Part {
    name: &'static str,
    question: &'static str,
    page: Option<&'static str>,
    commands: &'static [&'static str],
    /// Uses of the part without this command: how to start it, and a description.
    elsewhere: &'static [(&'static str, &'static str)],
}

const PARTS: [Part; 6] = [
    Part {
        name: "measure",
        question: "where does the server stall on memory, why, and for which statement?",
        page: Some("docs/measure.md"),
        commands: &[
            "doctor", "record", "report", "open", "tui", "why", "objects", "queries", "sharing", "pages",
            "annotate", "compare", "stat", "overhead", "latency", "events", "export",
        ],
        elsewhere: &[],
    },
    Part {
        name: "place",
        question: "which requests disturb each other's caches, and which cores suit them?",
        page: Some("docs/place.md"),
        commands: &["split", "auction"],
        elsewhere: &[("libsplit", "C library and modules of Apache, PHP, MariaDB, PostgreSQL")],
    },
    Part {
        name: "plan",
        question: "would another query plan miss less?",
        page: Some("docs/plan.md"),
        commands: &[],
        elsewhere: &[(
            "CREATE EXTENSION ccopt",
            "in psql: batch operators for PostgreSQL, chosen by measured costs",
        )],
    },
    Part {
        name: "persist",
        question: "what do persistent pointers cost, and how is that cost avoided?",
        page: Some("docs/persist.md"),
        commands: &["oo1"],
        elsewhere: &[("libp3l, p3l-clang, p3l", "C and C++ library, compiler, tools for files of objects")],
    },
    Part {
        name: "prove",
        question: "does a remedy help? benchmarks with intervals, and servers to try it on",
        page: Some("docs/prove.md"),
        commands: &["tpcc", "tpch", "server"],
        elsewhere: &[],
    },
    Part {
        name: "advise",
        question: "where does a live server's time go, and which remedy would help most?",
        page: Some("docs/tune.md"),
        commands: &["tune"],
        elsewhere: &[],
    },
];

/// Replaces the flat list of commands in the help of `command` by one list for each part.
pub fn grouped(command: clap::Command) -> clap::Command {
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}{}:\n{{options}}{{after-help}}",
        listed(&command),
        heading(&command, "Options")
    );
    command.help_template(template).after_help(
        "Start with `hardmeter doctor`: it lists the event sources of this machine and what is missing for the others.\n\
         `hardmeter COMMAND --help` explains a command. The pages are in docs/ of the sources, and below \
         share/doc/hardmeter once installed.",
    )
}

/// The parts with their commands, in the order of the help.
fn listed(command: &clap::Command) -> String {
    let names = PARTS
        .iter()
        .flat_map(|part| part.commands.iter().copied().chain(part.elsewhere.iter().map(|(name, _)| *name)));
    let column = names.map(str::len).max().unwrap_or(0) + 4;
    let literal = command.get_styles().get_literal();
    let mut text = String::new();
    for part in &PARTS {
        let page = part.page.map(|page| format!(" [{page}]")).unwrap_or_default();
        let _ = writeln!(text, "{}: {}{page}", heading(command, part.name), part.question);
        for name in part.commands {
            let about = command.find_subcommand(name).and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let name = (*name, literal);
            text.push_str(&row(name, &about, column));
        }
        for (name, what) in part.elsewhere {
            text.push_str(&row((name, literal), what, column));
        }
        text.push('\n');
    }
    text
}

/// A heading in the style of clap's own.
fn heading(command: &clap::Command, text: &str) -> String {
    let style = command.get_styles().get_header();
    format!("{style}{text}{style:#}")
}

/// One row: a styled name, and its description from `column` on, wrapped at clap's width.
fn row((name, style): (&str, &clap::builder::styling::Style), what: &str, column: usize) -> String {
    let width = terminal_size::terminal_size().map_or(100, |(width, _)| usize::from(width.0).min(100));
    let mut text = format!("  {style}{name}{style:#}{}", " ".repeat(column - 2 - name.len()));
    let mut used = column;
    for word in what.split(' ') {
        if used > column && used + word.len() > width {
            text.truncate(text.trim_end().len());
            let _ = write!(text, "\n{}", " ".repeat(column));
            used = column;
        }
        let _ = write!(text, "{word} ");
        used += word.len() + 1;
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn each_command_belongs_to_exactly_one_part() {
        let cli = crate::Cli::command();
        let mut shown: Vec<&str> =
            cli.get_subcommands().filter(|c| !c.is_hide_set()).map(clap::Command::get_name).collect();
        let mut listed: Vec<&str> = PARTS.iter().flat_map(|part| part.commands.iter().copied()).collect();
        shown.sort_unstable();
        listed.sort_unstable();
        assert_eq!(listed, shown);
    }

    #[test]
    fn pages_of_parts_exist_under_their_names() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for part in &PARTS {
            // The page of advise has the name of its command.
            let name = if part.name == "advise" { "tune" } else { part.name };
            assert_eq!(part.page, Some(format!("docs/{name}.md").as_str()));
            assert!(root.join(part.page.unwrap()).is_file(), "{}", part.name);
            assert!(root.join(part.name).is_dir(), "{}", part.name);
        }
    }

    #[test]
    fn help_names_parts_commands_and_the_extension() {
        let help = grouped(crate::Cli::command()).render_help().to_string();
        for text in [
            "plan: would another query plan miss less? [docs/plan.md]",
            "CREATE EXTENSION ccopt",
            "\n  record ",
            "--color",
        ] {
            assert!(help.contains(text), "{text} is missing:\n{help}");
        }
        assert!(help.find("prove:") < help.find("\n  tpcc "));
        assert!(help.lines().all(|line| line.len() <= 100), "{help}");
    }

    #[test]
    fn rows_wrap_below_their_column() {
        let plain = clap::builder::styling::Style::new();
        let text = row(("name", &plain), &"word ".repeat(30), 10);
        assert!(text.starts_with("  name    word word"), "{text}");
        assert!(text.lines().skip(1).all(|line| line.starts_with("          word")), "{text}");
        assert_eq!(text.matches("word").count(), 30);
    }
}
