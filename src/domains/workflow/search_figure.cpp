#include "flotilla/domains/workflow/search_figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace flotilla::workflow {
namespace {

Series band(const std::string& name, int look) { return {.name = name, .look = look}; }

void add(Series& series, double x, double mean, double deviation) {
  series.curve.add(x, mean);
  series.low.push_back(mean - deviation);
  series.high.push_back(mean + deviation);
}

Panel choices_panel(const Search& search) {
  Series expected = band("posterior of the choice", 0);
  Series seen{.name = "evaluation", .kind = Series::Kind::kPoints, .look = 1};
  Series best{.name = "best so far", .look = 2};
  double most = -INFINITY;
  for (size_t i = 0; i < search.history().size(); ++i) {
    const Trained& trained = search.history()[i];
    const auto x = static_cast<double>(i + 1);
    // The first choice knows nothing: its prior has no place on this axis.
    if (i > 0) add(expected, x, trained.top.front().mean, trained.top.front().deviation);
    seen.curve.add(x, trained.value);
    if (trained.reached || !search.options().gate) most = std::max(most, trained.value);
    best.curve.add(x, std::isfinite(most) ? most : NAN);
  }
  return {.title = "Choices",
          .x = {.label = "iteration"},
          .y = {.label = search.domain().value},
          .series = {expected, seen, best}};
}

Panel compliance_panel(const Search& search) {
  Series reached{.name = "end of training", .kind = Series::Kind::kPoints, .look = 0};
  Series threshold{.name = "threshold", .look = Series::kGrey};
  for (size_t i = 0; i < search.history().size(); ++i) {
    const auto x = static_cast<double>(i + 1);
    reached.curve.add(x, search.history()[i].compliance);
    threshold.curve.add(x, search.options().stop.threshold);
  }
  return {.title = "Compliance",
          .x = {.label = "iteration"},
          .y = {.label = search.domain().compliance},
          .series = {reached, threshold}};
}

Panel posterior_panel(const Search& search) {
  std::vector<Candidate> all = search.ranking();
  std::ranges::sort(all, [](const Candidate& a, const Candidate& b) {
    return a.mean != b.mean ? a.mean > b.mean : a.order < b.order;
  });
  Series posterior = band("mean and std", 0);
  for (size_t i = 0; i < all.size(); ++i) {
    add(posterior, static_cast<double>(i + 1), all[i].mean, all[i].deviation);
  }
  return {.title = "All workflows at the end",
          .x = {.label = "rank"},
          .y = {.label = search.domain().value},
          .series = {posterior}};
}

// How sure it is of all orders: the deviation of the choice shows only where it went.
Panel deviation_panel(const Search& search) {
  Series chosen{.name = "of the choice", .look = 0};
  for (size_t i = 1; i < search.history().size(); ++i) {
    chosen.curve.add(static_cast<double>(i + 1), search.history()[i].top.front().deviation);
  }
  return {.title = "Posterior std",
          .x = {.label = "iteration"},
          .y = {.label = search.domain().value, .from_zero = true},
          .series = {chosen}};
}

}  // namespace

Figure search_figure(const Search& search) {
  return {.title = fmt::format("{}: {} workflows, {} episodes", search.domain().env,
                               search.history().size(), search.episodes_used()),
          .panels = {choices_panel(search), deviation_panel(search), compliance_panel(search),
                     posterior_panel(search)}};
}

}  // namespace flotilla::workflow
