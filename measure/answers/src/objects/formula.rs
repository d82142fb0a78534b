//! Objects that the user defines by a formula over the address, as in Sun's dataspace profiling:
//!
//! ```text
//! slot=(addr - 0x7f0000000000) / 1024 % 16        which of 16 slots of 1 KB
//! bank=phys >> 13 & 7                             which DRAM bank
//! ```
//!
//! Integers only, with C's operators: `+ - * / %`, `<< >>`, `& ^ |`, `~ -`, parentheses; decimal and `0x`
//! hexadecimal. Arithmetic is of 128 bits, so that no difference of two addresses wraps. A formula has no
//! value if the sample lacks a variable, or after a division by zero.

use hardmeter_samples::model::Sample;
use std::fmt;

/// A variable of a formula.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variable {
    Address,
    Physical,
    Line,
    Page,
    Set,
    Pid,
    Cpu,
}

const VARIABLES: [(Variable, &str); 7] = [
    (Variable::Address, "addr"),
    (Variable::Physical, "phys"),
    (Variable::Line, "line"),
    (Variable::Page, "page"),
    (Variable::Set, "set"),
    (Variable::Pid, "pid"),
    (Variable::Cpu, "cpu"),
];

/// The size of a page as `page` counts them.
const PAGE_SIZE: u64 = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Or,
    Xor,
    And,
    ShiftLeft,
    ShiftRight,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

/// Binary operators: how each is written, and its precedence (C's order).
const OPERATORS: [(&str, Operator, u8); 10] = [
    ("|", Operator::Or, 1),
    ("^", Operator::Xor, 2),
    ("&", Operator::And, 3),
    ("<<", Operator::ShiftLeft, 4),
    (">>", Operator::ShiftRight, 4),
    ("+", Operator::Add, 5),
    ("-", Operator::Subtract, 5),
    ("*", Operator::Multiply, 6),
    ("/", Operator::Divide, 6),
    ("%", Operator::Remainder, 6),
];

/// A step of a formula in postfix order: evaluation needs a stack but no recursion.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Number(i128),
    Variable(Variable),
    Negate,
    Not,
    Binary(Operator),
}

/// A named formula over the properties of a sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Formula {
    name: String,
    steps: Vec<Step>,
}

/// The reason why a text is not a formula.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{reason} in \"{text}\"; write NAME=EXPRESSION of addr, phys, line, page, set, pid, cpu, whole numbers, \
     + - * / % << >> & ^ | ~ and parentheses"
)]
pub struct FormulaError {
    text: String,
    reason: String,
}

/// Maximum length of a formula, which also bounds the evaluation stack.
const LONGEST: usize = 1000;
const DEEPEST: usize = 100;

impl Formula {
    /// The name of the formula.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The value of the formula for a sample, for a line size in bytes that is a power of two.
    pub fn evaluate(&self, sample: &Sample<'_>, line_size: u32) -> Option<i128> {
        self.evaluate_with(|variable| {
            let address = || sample.address.map(|address| address.0);
            let value = match variable {
                Variable::Address => address()?,
                Variable::Physical => sample.physical_address?.0,
                Variable::Line => address()? / u64::from(line_size),
                Variable::Page => address()? / PAGE_SIZE,
                Variable::Set => u64::from(sample.simulated()?.set),
                Variable::Pid => return Some(i128::from(sample.pid?.0)),
                Variable::Cpu => u64::from(sample.cpu?.0),
            };
            Some(i128::from(value))
        })
    }

    fn evaluate_with(&self, value: impl Fn(Variable) -> Option<i128>) -> Option<i128> {
        let mut stack: Vec<i128> = Vec::with_capacity(8);
        for step in &self.steps {
            let result = match step {
                Step::Number(number) => *number,
                Step::Variable(variable) => value(*variable)?,
                Step::Negate => stack.pop()?.checked_neg()?,
                Step::Not => !stack.pop()?,
                Step::Binary(operator) => {
                    let right = stack.pop()?;
                    binary(*operator, stack.pop()?, right)?
                }
            };
            stack.push(result);
        }
        stack.pop()
    }
}

fn binary(operator: Operator, left: i128, right: i128) -> Option<i128> {
    let shift = || u32::try_from(right).ok().filter(|bits| *bits < 64);
    match operator {
        Operator::Or => Some(left | right),
        Operator::Xor => Some(left ^ right),
        Operator::And => Some(left & right),
        Operator::ShiftLeft => left.checked_mul(1 << shift()?),
        Operator::ShiftRight => Some(left >> shift()?),
        Operator::Add => left.checked_add(right),
        Operator::Subtract => left.checked_sub(right),
        Operator::Multiply => left.checked_mul(right),
        // Round down, so that slots below a base do not share number 0 with the first slot above it.
        Operator::Divide => (right != 0).then(|| left.div_euclid(right)),
        Operator::Remainder => (right != 0).then(|| left.rem_euclid(right)),
    }
}

impl std::str::FromStr for Formula {
    type Err = FormulaError;

    fn from_str(text: &str) -> Result<Self, FormulaError> {
        let error = |reason: String| FormulaError { text: text.to_string(), reason };
        let Some((name, expression)) = text.split_once('=') else {
            return Err(error("no \"=\"".into()));
        };
        let name = name.trim();
        if name.is_empty() || !name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-') {
            return Err(error("no name of letters and digits before \"=\"".into()));
        }
        if expression.len() > LONGEST {
            return Err(error(format!("more than {LONGEST} characters")));
        }
        let mut parser = Parser { rest: expression, steps: Vec::new(), depth: 0 };
        parser.binary(0).map_err(error)?;
        match parser.peek() {
            "" => Ok(Formula { name: name.to_string(), steps: parser.steps }),
            rest => Err(error(format!("\"{rest}\" is not understood"))),
        }
    }
}

impl fmt::Display for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

struct Parser<'t> {
    rest: &'t str,
    steps: Vec<Step>,
    depth: usize,
}

impl<'t> Parser<'t> {
    fn peek(&mut self) -> &'t str {
        self.rest = self.rest.trim_start();
        self.rest
    }

    /// Consumes a text if it comes next, and then returns true.
    fn take(&mut self, text: &str) -> bool {
        match self.peek().strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// Operands joined by operators that bind more tightly than `floor` (precedence climbing).
    fn binary(&mut self, floor: u8) -> Result<(), String> {
        self.operand()?;
        loop {
            let next = self.peek();
            let found = OPERATORS.iter().find(|(text, _, level)| next.starts_with(text) && *level > floor);
            let Some((text, operator, level)) = found else { return Ok(()) };
            self.take(text);
            self.binary(*level)?;
            self.steps.push(Step::Binary(*operator));
        }
    }

    fn operand(&mut self) -> Result<(), String> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(format!("more than {DEEPEST} levels"));
        }
        if self.take("(") {
            self.binary(0)?;
            if !self.take(")") {
                return Err("a missing \")\"".into());
            }
        } else if self.take("-") {
            self.operand()?;
            self.steps.push(Step::Negate);
        } else if self.take("~") {
            self.operand()?;
            self.steps.push(Step::Not);
        } else {
            let word = self.word();
            let step = number(word).map(Step::Number).or_else(|| variable(word).map(Step::Variable));
            self.steps.push(step.ok_or_else(|| match word {
                "" => "a missing number or variable".to_string(),
                word => format!("the unknown \"{word}\""),
            })?);
        }
        self.depth -= 1;
        Ok(())
    }

    fn word(&mut self) -> &'t str {
        let rest = self.peek();
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        self.rest = after;
        word
    }
}

fn number(word: &str) -> Option<i128> {
    let digits = word.replace('_', "");
    let value = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hexadecimal) => u64::from_str_radix(hexadecimal, 16),
        None => digits.parse(),
    };
    value.ok().map(i128::from)
}

fn variable(word: &str) -> Option<Variable> {
    VARIABLES.iter().find(|(_, name)| *name == word).map(|(variable, _)| *variable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::sample;
    use hardmeter_samples::model::VirtualAddress;

    fn value(expression: &str) -> Option<i128> {
        let formula: Formula = format!("x={expression}").parse().expect(expression);
        let mut sample = sample(0, 7, 0x1000);
        sample.address = Some(VirtualAddress(0x7f40));
        formula.evaluate(&sample, 64)
    }

    #[test]
    fn operators_bind_as_in_c() {
        for (expression, expected) in [
            ("2 + 3 * 4", 14),
            ("(2+3)*4", 20),
            ("20 - 5 - 3", 12),
            ("100 / 7 % 4", 2),
            ("1 << 4 + 1", 32),
            ("1 | 2 ^ 3 & 5", 3),
            ("-2 * -3", 6),
            ("~0 & 0xff", 255),
            ("0xFFFF_FFFF_FFFF_FFFF + 1", 1 << 64),
            ("16 >> 2 << 1", 8),
        ] {
            assert_eq!(value(expression), Some(expected), "{expression}");
        }
    }

    #[test]
    fn variables_are_the_samples() {
        assert_eq!(value("(addr - 0x7f00) / 16 % 16"), Some(4));
        assert_eq!(value("line"), Some(0x7f40 / 64));
        assert_eq!(value("page"), Some(7));
        assert_eq!(value("pid * 10 + cpu"), Some(70));
        assert_eq!(value("phys"), None, "not recorded");
        assert_eq!(value("set"), None, "only a simulator knows");
    }

    #[test]
    fn what_has_no_value_and_what_wraps_nowhere() {
        assert_eq!(value("addr / (cpu - cpu)"), None);
        assert_eq!(value("addr % 0"), None);
        assert_eq!(value("1 << 64"), None);
        assert_eq!(value("1 << -1"), None);
        assert_eq!(value("(0 - 1) / 16"), Some(-1), "slots below the base have numbers of their own");
        assert_eq!(value("(0 - 1) % 16"), Some(15));
        let product = ["0xffffffffffffffff"; 3].join("*");
        assert_eq!(value(&product), None, "beyond 128 bits");
    }

    #[test]
    fn mistakes_are_told() {
        for (text, reason) in [
            ("addr", "no \"=\""),
            ("=addr", "no name"),
            ("x=", "a missing number or variable"),
            ("x=addr +", "a missing number or variable"),
            ("x=(addr", "a missing \")\""),
            ("x=addr)", "\")\" is not understood"),
            ("x=adr", "the unknown \"adr\""),
            ("x=18446744073709551616", "the unknown"),
        ] {
            let error = text.parse::<Formula>().expect_err(text).to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
        let deep = format!("x={}1", "-".repeat(500));
        assert!(deep.parse::<Formula>().unwrap_err().to_string().contains("levels"));
        let long = format!("x=1{}", "+1".repeat(600));
        assert!(long.parse::<Formula>().unwrap_err().to_string().contains("1000 characters"));
    }
}
