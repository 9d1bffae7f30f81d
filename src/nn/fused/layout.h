// Makes the plan of a network and carries parameters between its named tensors and the plan's
// padded arrays.
#pragma once

#include <string>
#include <vector>

#include "flotilla/nn/fused/plan.h"
#include "flotilla/nn/network.h"
#include "flotilla/nn/parameters.h"

namespace flotilla::fused {

class Layout {
 public:
  explicit Layout(const NetworkSpec& spec);
  Layout(const Layout&) = delete;
  Layout& operator=(const Layout&) = delete;

  const NetworkSpec& spec() const { return spec_; }
  const Plan& plan() const { return plan_; }

  void pack(const Tensors& tensors, float* params) const;
  void unpack(const float* params, Tensors& tensors) const;
  // The tensor that position `at` of the padded array belongs to.
  std::string name_at(size_t at) const;

 private:
  // Element (row, column) of a tensor lies at offset + row * row_stride + column * column_stride.
  // Columns that are channels of a picture, one after the other, are counted with the channels
  // innermost.
  struct Place {
    std::string name;
    size_t offset, size, row_stride, column_stride;
    size_t channels = 1;
  };

  void add_torso(const NetworkSpec& spec);
  void add_convolution(const Convolution& convolution, Role role, const ImageShape& from,
                       const ImageShape& made, int made_frame);
  const int32_t* keep(std::vector<int32_t> table);
  void add_attention(const AttentionTorso& torso);
  void add_layer(const std::string& name, int in, int out, bool first);
  void add_head(const std::string& name, int in, int out);
  void add_branch(const NetworkSpec& spec, const std::string& name, int first_head, int heads);
  void place_work(const NetworkSpec& spec);
  void place_torso_work(size_t& at);
  void place_factors(size_t& at);
  void group_windows(ConvLayer& conv);
  void place_dense_rows();
  std::vector<TokenPlace> place_tokens(const AttentionTorso& torso, size_t& at);
  void place_token_work(const AttentionTorso& torso, size_t& at);
  size_t reserve(size_t floats);
  template <class Visit>
  void visit(const Tensors& tensors, const Visit& each) const;

  const NetworkSpec spec_;
  const int pad_;  // widths are multiples of this
  std::vector<ConvLayer> convs_;
  std::vector<std::vector<int32_t>> tables_;  // what they point to
  std::vector<TokenLayer> token_layers_;
  std::vector<TokenPlace> groups_;
  std::vector<Layer> layers_;
  std::vector<Head> heads_;
  std::vector<Branch> branches_;
  std::vector<Place> places_;
  Plan plan_;
};

}  // namespace flotilla::fused
