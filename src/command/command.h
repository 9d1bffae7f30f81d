// A command of the program: its sub-commands, its options, its help, and what it does. The program
// itself is one, too.
//
// Made on CLI11, which command.cpp alone includes: it takes seconds to compile.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace flotilla {

// An option, a flag or an argument of a command, to say what it may be. Valid as long as the
// command.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option& required();
  Option& range(int low, int high);
  Option& range(int64_t low, int64_t high);
  Option& range(double low, double high);
  Option& choices(const std::vector<std::string>& allowed);
  // What is wrong with a text that was given, or "".
  Option& check(std::function<std::string(const std::string&)> fault_of);
  Option& excludes(const Option& other);
  Option& needs(const Option& other);
  Option& comma_separated();  // a list in one argument: others may follow

  bool given() const;

 private:
  friend class Command;
  CLI::Option* option_;
};

class Command {
 public:
  struct Texts {
    std::string name, description, version, footer;
  };
  // The program itself.
  explicit Command(const Texts& texts);
  ~Command();
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  // A sub-command. Where there are some, one of them has to be given.
  Command& add(const std::string& name, const std::string& summary);
  // REQUIRES: it was added.
  Command& find(const std::string& name) const;

  // "--seed", "--num-envs,--n-envs"; without dashes it is an argument, by its place. `value` keeps
  // its default where nothing is given, and must outlive parse().
  // T: std::string, int, int64_t, uint64_t, double; std::optional and std::vector of some of them.
  template <class T>
  requires(!std::invocable<T, int> && !std::invocable<T, std::string>) Option
      option(const std::string& names, T& value, const std::string& help);
  // Hands on what is given.
  Option option(const std::string& names, std::function<void(const std::string&)> take,
                const std::string& help);
  Option option(const std::string& names, std::function<void(int)> take, const std::string& help);
  Option flag(const std::string& name, bool& value, const std::string& help);
  Option flag(const std::string& name, int& times_given, const std::string& help);
  Option flag(const std::string& name, std::function<void()> when_given, const std::string& help);
  // Takes false for `--NAME=false`, and for names behind a "!".
  Option flag(const std::string& names, std::function<void(bool)> take, const std::string& help);
  bool given(const std::string& option) const;
  // Leaves the option out of --help where `shown`, asked once the arguments are read, says no. It
  // can be given all the same.
  void show_when(const Option& option, std::function<bool()> shown);
  // The command takes key=value settings, and these are keys: who writes one as an option is told.
  void settings(std::function<bool(const std::string& key)> is_setting);

  // What the command does.
  void action(std::function<void()> action);

  // Carries out what the arguments ask for; --help and --version print on stdout. Options may be
  // written with underscores for dashes. Throws Error(kUsage) for arguments that no command takes,
  // and what the action throws.
  void parse(int argc, char** argv);

 private:
  explicit Command(CLI::App* app);
  const Command* child(const std::string& name) const;
  // The command that arguments name, and how many of them do.
  std::pair<const Command*, int> named(int argc, char** argv) const;
  std::vector<std::string> option_names() const;  // the long ones, with their dashes
  std::vector<std::string> with_dashes(int argc, char** argv) const;
  std::string unknown(int argc, char** argv) const;
  void hide_options() const;

  std::unique_ptr<CLI::App> owned_;  // of the program itself
  CLI::App* app_;
  std::vector<std::unique_ptr<Command>> children_;
  std::vector<std::pair<CLI::Option*, std::function<bool()>>> shown_when_;
  std::function<bool(const std::string&)> is_setting_;
};

}  // namespace flotilla
